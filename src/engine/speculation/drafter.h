// Drafts the next tokens of one sequence from its text, a prediction and recent answers of other
// sequences. A draft is only a guess: the engine compares it with the tokens that the sequence
// chooses. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/match_finder.h"

namespace billow::engine {

inline constexpr double kMinDraftChance = 0.05;  // min chance of a draft's last token

struct Draft {
  std::vector<int32_t> tokens;
  std::vector<double> chances;  // [token]: that it and all before it are accepted; descending
  std::vector<size_t> grades;   // [token]: see Acceptance
  DraftSource source = DraftSource::kText;
  Match match;  // source of the draft; unset for a draft model
};

class Drafter {
 public:
  // `recent` has the answers of other sequences and must outlive this object. `prediction`: a text
  // similar to the expected answer; may be empty. `ease`: the first chance_of_guess().
  Drafter(const MatchFinder& recent, std::span<const int32_t> prediction, double ease = 0.0);
  // The same, but keeps `recent` alive.
  Drafter(std::shared_ptr<const MatchFinder> recent, std::span<const int32_t> prediction,
          double ease);

  // Returns at most max_tokens tokens that may follow `text`, which must begin with the text of the
  // last call. The draft ends where its tokens become unlikely, and may be empty.
  Draft propose(std::span<const int32_t> text, size_t max_tokens);
  // Learns from a draft whose first n_compared tokens were compared. All except the last one were
  // accepted, and the last one if `last_accepted`. REQUIRES: the draft is from propose().
  void learn(const Draft& draft, size_t n_compared, bool last_accepted);

  // Returns the estimated probability that the next guess of a draft model is accepted. Without
  // guesses, the estimate slowly rises again.
  double chance_of_guess() const noexcept { return ease_; }
  // Records the value of a guess: 1 if it was accepted, 0 if not. If it was not compared: its
  // chance.
  void note_guess(double worth) noexcept;

 private:
  void add(std::span<const int32_t> text);
  void extend(Draft& draft, const MatchFinder& finder, size_t max_tokens) const;

  std::shared_ptr<const MatchFinder> owner_;  // of recent_; null: the caller owns it
  const MatchFinder& recent_;
  MatchFinder own_;
  size_t n_added_ = 0;     // tokens of the text that own_ has
  uint32_t expected_ = 0;  // position in own_ where the text likely continues
  bool has_expected_ = false;
  Acceptance acceptance_;
  double ease_;
};

}  // namespace billow::engine

// Drafts what one sequence may write next, out of what its text, a prediction and the answers of
// others hold. A draft is only a guess: the engine compares it with what the sequence chooses. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "engine/speculation/match_finder.h"

namespace billow::engine {

inline constexpr double kMinDraftChance = 0.05;  // of the last token of a draft

struct Draft {
  std::vector<int32_t> tokens;
  std::vector<double> chances;  // [token]: that it and all before it are accepted; falling
  std::vector<size_t> grades;   // [token]: of Acceptance
  DraftSource source = DraftSource::kText;
  Match match;  // what it was found behind; of a model: nothing
};

class Drafter {
 public:
  // `recent` holds the answers of others and must outlive it. `prediction`: a text that the answer
  // may resemble; may be empty. `ease`: the first chance_of_guess().
  Drafter(const MatchFinder& recent, std::span<const int32_t> prediction, double ease = 0.0);

  // At most max_tokens that may follow `text`, which begins with the text of the call before. The
  // draft has fewer tokens where they become unlikely, or none.
  Draft propose(std::span<const int32_t> text, size_t max_tokens);
  // The first n_compared tokens of a draft were compared; all but the last one were accepted, and
  // that one if `last_accepted`.
  // REQUIRES: propose() has made it.
  void learn(const Draft& draft, size_t n_compared, bool last_accepted);

  // The probability that the next guess of a draft model is accepted, as far as can be said before
  // it is made. Without guesses it becomes more hopeful again.
  double chance_of_guess() const noexcept { return ease_; }
  // A guess was worth so much: 1 where it was accepted, 0 where it was not, or its chance.
  void note_guess(double worth) noexcept;

 private:
  void add(std::span<const int32_t> text);
  void extend(Draft& draft, const MatchFinder& finder, size_t max_tokens) const;

  const MatchFinder& recent_;
  MatchFinder own_;
  size_t n_added_ = 0;     // tokens of the text that own_ knows
  uint32_t expected_ = 0;  // where in own_ the text goes on, if it follows the draft's source
  bool has_expected_ = false;
  Acceptance acceptance_;
  double ease_;
};

}  // namespace billow::engine

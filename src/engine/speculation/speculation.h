// Speculation of an engine: chooses which drafted tokens its passes compare, and learns from the
// results. A drafted token is evaluated after the pending tokens of a sequence. The sequence still
// chooses each token itself, from the logits that it would have without drafts, so the answer is
// the same to the bit. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/speculation/draft_plan.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/match_finder.h"
#include "engine/speculation/pass_cost.h"

namespace billow::engine {

// Default max drafted tokens of a pass. More gain little, and each needs memory for a row of
// logits.
inline constexpr size_t kDefaultMaxDraft = 32;

// Returns the states of a sequence after drafted rows, for KvGroup::n_draft_states. The state
// before the draft and the state after all of it are enough for the two most frequent results:
// nothing is accepted, or all is. A state after each row would need as much memory and traffic
// again for each drafted token.
constexpr size_t draft_states(size_t max_draft) noexcept { return max_draft == 0 ? 0 : 1; }

struct SpeculationOptions {
  size_t max_draft = kDefaultMaxDraft;  // max tokens of a pass, of all sequences; 0: none
  bool is_eager = false;                // compares all drafted tokens, regardless of the cost
  bool evaluates_again = false;         // see DraftRoom::evaluates_again
};

class Speculation {
 public:
  explicit Speculation(const SpeculationOptions& options);

  size_t max_draft() const noexcept { return options_.max_draft; }

  // Returns the drafter of a new sequence. It drafts from recent answers of the same salt.
  Drafter make_drafter(std::span<const int32_t> prediction = {}, uint64_t salt = 0) {
    return Drafter(recent(salt), prediction, ease_);
  }

  // A sequence that may draft in a pass.
  struct Writer {
    Drafter* drafter = nullptr;
    std::span<const int32_t> text;  // all tokens of the sequence
    size_t max_tokens = 0;          // max length of its draft
  };
  // Returns one draft from texts for each writer, often empty.
  std::vector<Draft> propose(std::span<const Writer> writers, const DraftRoom& room);
  // Shortens the drafts of a pass to the tokens that it should compare. Writers and drafts are
  // those of propose(); guesses of a draft model may have replaced drafts.
  void limit(std::span<const Writer> writers, const DraftRoom& room, std::span<Draft> drafts);
  // Learns from a draft whose first n_compared tokens, at least one, were compared. All except the
  // last one were accepted, and the last one if `last_accepted`.
  void learn(Drafter& drafter, const Draft& draft, size_t n_compared, bool last_accepted);

  // Returns for which sequences a draft model should guess one more token, in one pass. `chances`:
  // for each sequence, that this guess and all before it are accepted; 0: no guess. A guess is
  // worth the time if the tokens that it is expected to save take longer.
  std::vector<bool> worth_guessing(std::span<const double> chances, const DraftRoom& room) const;
  // Returns how many rows a draft model may evaluate in this pass to catch up with texts.
  size_t rows_to_catch_up(const DraftRoom& room) const;
  // Adds a guess with its probability from the draft model.
  void add_guess(Draft& draft, int32_t token, double probability) const;

  // Records the time of a pass over n_rows rows. REQUIRES: all rows are of generating sequences.
  void note_pass(size_t n_rows, std::chrono::nanoseconds time) noexcept {
    cost_.note(n_rows, time);
  }
  // Records the time of a pass of the draft model.
  void note_guess_pass(size_t n_rows, std::chrono::nanoseconds time) noexcept {
    guess_cost_.note(n_rows, time);
  }
  // Adds a finished answer. Later answers may be similar.
  void remember(std::span<const int32_t> answer, uint64_t salt = 0);

 private:
  // The recent answers of a salt.
  struct Recent {
    uint64_t salt = 0;
    std::shared_ptr<MatchFinder> answers;
  };
  // Returns the recent answers of a salt. Forgets those of the salt that was used least recently if
  // there are too many salts.
  const std::shared_ptr<MatchFinder>& recent(uint64_t salt);
  void note_guess(Drafter& drafter, double worth) noexcept;

  SpeculationOptions options_;
  std::list<Recent> recent_;  // last used first
  PassCost cost_;
  PassCost guess_cost_;  // of a draft model
  Acceptance guesses_;   // of all sequences; the model's confidence determines the value of a guess
  double ease_;          // chance_of_guess() of a new sequence
};

}  // namespace billow::engine

// Speculation of an engine: which drafted tokens its passes compare, and what they were worth. A
// drafted token is evaluated behind the tokens that a sequence waits for; the sequence still
// chooses each token by itself, from the logits that it would have without drafts, so the answer is
// the same to the bit. One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/speculation/draft_plan.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/match_finder.h"
#include "engine/speculation/pass_cost.h"

namespace billow::engine {

// Drafted tokens of a pass: more gain little, and each takes memory for the logits of a row.
inline constexpr size_t kDefaultMaxDraft = 32;

// States that a sequence may have behind drafted rows, for KvGroup::n_draft_states. The state
// behind the rows before a draft and the one behind all of it serve the two most frequent ends,
// that nothing is accepted and that all is. One behind each row would take as much memory and
// traffic again for each drafted token.
constexpr size_t draft_states(size_t max_draft) noexcept { return max_draft == 0 ? 0 : 1; }

struct SpeculationOptions {
  size_t max_draft = kDefaultMaxDraft;  // tokens of a pass, of all sequences together; 0: none
  bool is_eager = false;                // compares all that is drafted, whatever that costs
  bool evaluates_again = false;         // DraftRoom::evaluates_again
};

class Speculation {
 public:
  explicit Speculation(const SpeculationOptions& options);

  size_t max_draft() const noexcept { return options_.max_draft; }

  // What a new sequence drafts with. This object must outlive it.
  Drafter make_drafter(std::span<const int32_t> prediction = {}) const {
    return Drafter(recent_, prediction, ease_);
  }

  // A sequence that may draft in a pass.
  struct Writer {
    Drafter* drafter = nullptr;
    std::span<const int32_t> text;  // all its tokens
    size_t max_tokens = 0;          // that it has room for
  };
  // What texts hold that may follow, one draft for each writer, often empty.
  std::vector<Draft> propose(std::span<const Writer> writers, const DraftRoom& room);
  // Shortens the drafts of a pass to what it should compare. Writers and drafts are those of
  // propose(), whose drafts may have been replaced by guesses of a draft model.
  void limit(std::span<const Writer> writers, const DraftRoom& room, std::span<Draft> drafts);
  // Learns from a draft whose first n_compared tokens, at least one, were compared: all but the
  // last one were accepted, and that one if `last_accepted`.
  void learn(Drafter& drafter, const Draft& draft, size_t n_compared, bool last_accepted);

  // Which sequences a draft model should guess one token more of, in one pass. `chances`: of each,
  // that this guess and all before it are accepted; 0: it gets none. It is worth the time where the
  // tokens that it is expected to save take longer.
  std::vector<bool> worth_guessing(std::span<const double> chances, const DraftRoom& room) const;
  // How many rows a draft model may read in this pass to catch up with texts.
  size_t rows_to_catch_up(const DraftRoom& room) const;
  // Adds a guess to which the draft model gives this probability.
  void add_guess(Draft& draft, int32_t token, double probability) const;

  // Learns the time of a pass over n_rows rows. REQUIRES: all rows are of sequences that write.
  void note_pass(size_t n_rows, std::chrono::nanoseconds time) noexcept {
    cost_.note(n_rows, time);
  }
  // The same for a pass of the draft model.
  void note_guess_pass(size_t n_rows, std::chrono::nanoseconds time) noexcept {
    guess_cost_.note(n_rows, time);
  }
  // An answer has ended: later ones may resemble it.
  void remember(std::span<const int32_t> answer);

 private:
  void note_guess(Drafter& drafter, double worth) noexcept;

  SpeculationOptions options_;
  MatchFinder recent_;
  PassCost cost_;
  PassCost guess_cost_;  // of a draft model
  Acceptance guesses_;   // of all sequences: how sure the model is says what a guess is worth
  double ease_;          // chance_of_guess() of a new sequence
};

}  // namespace billow::engine

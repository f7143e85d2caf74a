// Enforces the constraint of one answer: free text until the grammar begins, then the grammar. Both
// may repeat.
// Calculates which tokens may come next. One thread at a time may use a guide; it may move between
// threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/matcher.h"
#include "constraint/vocabulary.h"

namespace billow::constraint {

struct GuideStats {
  std::chrono::nanoseconds mask_time{};  // sum over all masks
  std::chrono::nanoseconds max_mask_time{};
  size_t n_masks = 0;
  size_t n_forced = 0;  // tokens that were accepted without a choice
};

class Guide {
 public:
  // Compiles the grammar. Throws the same Error as check().
  Guide(std::shared_ptr<const Vocabulary> vocabulary, const Constraint& constraint);

  // Calculates the result of allowed(). Usually takes microseconds, at most tens of milliseconds.
  // Stores errors, which allowed() throws. REQUIRES: not done().
  void prepare() noexcept;
  // Returns a mask of the tokens that may come next, 32 per element, lowest bit first; empty: all
  // tokens. Valid until the next accept(). Throws Error (kTooLarge) if the grammar has become too
  // complex. REQUIRES: prepare() since the last accept().
  std::span<const uint32_t> allowed() const;

  // Accepts a token that was allowed and is not an end token. `text` is the token's text; control
  // tokens have text, too. Returns the tokens that must follow, at most max_forced; the guide has
  // accepted them, too. Throws the same Error as allowed().
  std::vector<int32_t> accept(int32_t token, std::string_view text, size_t max_forced);

  // Returns whether the answer is complete and can only end.
  bool done() const noexcept { return phase_ == Phase::kDone; }
  // Returns whether free text is over: the marker is forced, or the grammar may begin.
  bool begun() const noexcept { return phase_ != Phase::kOpening && phase_ != Phase::kFree; }
  const GuideStats& stats() const noexcept { return stats_; }

 private:
  enum class Phase : uint8_t {
    kOpening,  // the first tokens decide between free text and the grammar
    kFree,
    kMarker,  // the marker, or the text after it, is forced
    kBlank,   // directly after the marker: blanks are allowed, and the grammar may begin
    kGrammar,
    kAfter,  // the grammar is complete: blanks, the end, or the text after which it may repeat
    kDone,
  };

  void compute_mask();
  bool forbid_text_after_marker();
  void open(int32_t token);
  void note_free(std::string_view text);
  void consume(int32_t token);
  void end_grammar();
  void note_after(int32_t token);
  void free_again();
  std::vector<int32_t> take_forced(size_t max);

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string starts_after_;
  size_t starts_within_;
  std::vector<int32_t> marker_;  // tokens of starts_after and forced_next
  size_t n_found_ = 0;           // those of starts_after
  // Tokens that complete the marker and go on with more than blanks, which the grammar would not
  // see. Index: how many bytes of the marker precede the token. Found when needed.
  std::vector<std::optional<std::vector<int32_t>>> crossing_;
  std::vector<int32_t> opener_;  // tokens of opens_with
  size_t n_opened_ = 0;          // tokens of opener_ so far
  bool may_match_ = true;        // the grammar allows the tokens of opener_ so far
  bool may_not_start_;
  std::vector<int32_t> closer_;  // tokens of repeats_after; none: the grammar does not repeat
  size_t n_closed_ = 0;          // tokens of closer_ so far
  Matcher matcher_;
  Phase phase_;
  std::string tail_;     // end of the free text that may be the beginning of the marker
  size_t n_free_ = 0;    // free tokens so far
  size_t n_marker_ = 0;  // forced tokens of the marker so far
  size_t n_blank_ = 0;   // blank tokens since the marker or the grammar
  std::vector<uint32_t> mask_;
  bool all_allowed_ = false;
  bool ready_ = false;
  std::string error_;  // for allowed() to throw
  GuideStats stats_;
};

}  // namespace billow::constraint

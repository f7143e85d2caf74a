// Holds one answer to its constraint: free text until the grammar begins, then the grammar. Knows
// for each token which may follow. One thread at a time; it may move between threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/matcher.h"
#include "constraint/vocabulary.h"

namespace billow::constraint {

struct GuideStats {
  std::chrono::nanoseconds mask_time{};  // of all masks together
  std::chrono::nanoseconds max_mask_time{};
  size_t n_masks = 0;
  size_t n_forced = 0;  // tokens that were accepted without a choice
};

class Guide {
 public:
  // Compiles the grammar. Throws Error as check() does.
  Guide(std::shared_ptr<const Vocabulary> vocabulary, const Constraint& constraint);

  // Makes ready what allowed() returns: most often some microseconds of work, at most some ten
  // milliseconds. An error waits for allowed(). REQUIRES: not done().
  void prepare() noexcept;
  // The tokens that may come next, 32 a word, the lowest bit first; empty: all. Valid until the
  // next accept(). Throws Error (kTooLarge) where the grammar has become too complex. REQUIRES:
  // prepare() since the last accept().
  std::span<const uint32_t> allowed() const;

  // Goes on by a token that was allowed and is no end token. `text` is what it reads as, control
  // tokens as their texts. Returns the tokens that must follow, at most so many, which are accepted
  // with it. Throws Error as allowed() does.
  std::vector<int32_t> accept(int32_t token, std::string_view text, size_t max_forced);

  // Whether the answer is complete, and can only end.
  bool done() const noexcept { return phase_ == Phase::kDone; }
  // Whether the grammar has begun.
  bool begun() const noexcept { return phase_ != Phase::kOpening && phase_ != Phase::kFree; }
  const GuideStats& stats() const noexcept { return stats_; }

 private:
  enum class Phase : uint8_t {
    kOpening,  // the first token decides whether free text or the grammar comes
    kFree,
    kMarker,  // the text that ends what is free is written for the model
    kBlank,   // right behind it
    kGrammar,
    kDone,
  };

  void compute_mask();
  void note_free(std::string_view text);
  void consume(int32_t token);
  std::vector<int32_t> take_forced(size_t max);

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string starts_after_;
  size_t starts_within_;
  std::vector<int32_t> marker_;  // its tokens
  int32_t opener_ = -1;          // the first token of opens_with; -1: none
  bool may_not_start_;
  Matcher matcher_;
  Phase phase_;
  std::string tail_;     // of the free text: what may be the beginning of the marker
  size_t n_free_ = 0;    // tokens
  size_t n_marker_ = 0;  // tokens of it that are written
  size_t n_blank_ = 0;   // tokens
  std::vector<uint32_t> mask_;
  bool all_allowed_ = false;
  bool ready_ = false;
  std::string error_;  // that allowed() is to throw
  GuideStats stats_;
};

}  // namespace billow::constraint

// The state of a text in a grammar: which tokens may come next, which must, and whether the text
// may end. One thread at a time may use a matcher. At any step a grammar may become too complex for
// its limits. Then that call and all later ones throw Error (kTooLarge).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/vocabulary.h"

struct billow_matcher;

namespace billow::constraint {

class Matcher {
 public:
  // Compiles the grammar. Throws the same Error as check().
  Matcher(std::shared_ptr<const Vocabulary> vocabulary, const Grammar& grammar);
  Matcher(const Matcher& other);  // copies the state; the copies are independent
  Matcher& operator=(const Matcher&) = delete;
  Matcher(Matcher&&) noexcept = default;
  Matcher& operator=(Matcher&&) noexcept = default;

  const Vocabulary& vocabulary() const noexcept { return *vocabulary_; }

  // Sets the bits in `mask` of exactly the tokens that may come next. If the text may end here, the
  // end tokens are among them. REQUIRES: `mask` has n_words() elements; not stopped().
  void compute_mask(std::span<uint32_t> mask);
  // Advances by these tokens. Throws Error (kInvalidInput) if the grammar does not allow one of
  // them.
  void consume(std::span<const int32_t> tokens);
  // Returns the tokens that must come next, as far as the grammar leaves no choice; usually none.
  // Does not consume them.
  std::vector<int32_t> forced();
  // Returns how many of these tokens, from the first on, the grammar allows. Consumes none.
  size_t n_allowed(std::span<const int32_t> tokens);
  // accepts(): whether the text may end here. stopped(): whether it can only end here.
  bool accepts();
  bool stopped() const noexcept;
  // Returns to the beginning of the grammar.
  void reset();

 private:
  struct Free {
    void operator()(billow_matcher* handle) const noexcept;
  };
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<billow_matcher, Free> handle_;
};

}  // namespace billow::constraint

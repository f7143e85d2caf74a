// Where a text stands in a grammar: which tokens may come next, which must, whether it may end.
// One thread at a time. A grammar may be too complex for its limits at any step: then Error
// (kTooLarge) is thrown, and by all later calls.
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
  // Compiles the grammar. Throws Error as check() does.
  Matcher(std::shared_ptr<const Vocabulary> vocabulary, const Grammar& grammar);
  Matcher(const Matcher& other);  // stands where the other does, and goes its own way
  Matcher& operator=(const Matcher&) = delete;
  Matcher(Matcher&&) noexcept = default;
  Matcher& operator=(Matcher&&) noexcept = default;

  const Vocabulary& vocabulary() const noexcept { return *vocabulary_; }

  // Sets in `mask` (n_words() of them) exactly the tokens that may come next, end tokens among them
  // where the text may end here. REQUIRES: not stopped().
  void compute_mask(std::span<uint32_t> mask);
  // Goes on by these tokens. Throws Error (kInvalidInput) where the grammar does not allow one.
  void consume(std::span<const int32_t> tokens);
  // The tokens that must come next, as far as the grammar leaves no choice; most often none. Does
  // not consume them.
  std::vector<int32_t> forced();
  // How many of these tokens, from the first on, the grammar allows. Consumes none.
  size_t n_allowed(std::span<const int32_t> tokens);
  // Whether the text may end here, and whether it can only end here.
  bool accepts();
  bool stopped() const noexcept;
  // Back to the beginning.
  void reset();

 private:
  struct Free {
    void operator()(billow_matcher* handle) const noexcept;
  };
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<billow_matcher, Free> handle_;
};

}  // namespace billow::constraint

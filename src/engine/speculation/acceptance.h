// The probability that a sequence chooses its drafted tokens. Learned from tokens that were
// compared, by the source of a draft and the source's confidence. Pure; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace billow::engine {

enum class DraftSource : uint8_t {
  kText,    // earlier in the sequence's own text
  kNear,    // near the place where the last draft went wrong
  kRecent,  // in recent answers of other sequences
  kModel,   // guessed by a draft model
};
inline constexpr size_t kDraftSources = 4;

class Acceptance {
 public:
  static constexpr size_t kGrades = 6;
  // Returns a grade, from 0 on, for the confidence of a source: by the number of tokens before it
  // that match, or by the probability from a draft model.
  static size_t grade_of_match(size_t match_length) noexcept;
  static size_t grade_of_probability(double probability) noexcept;

  // Returns the probability that a drafted token is accepted if all tokens drafted before it were.
  double chance(DraftSource source, size_t grade) const noexcept;
  void learn(DraftSource source, size_t grade, bool accepted) noexcept;
  // Reduces the weight of earlier results, because a text that was hard to guess may become easy.
  void fade() noexcept;

 private:
  struct Counts {
    double accepted = 0.0;
    double tried = 0.0;
  };

  std::array<std::array<Counts, kGrades>, kDraftSources> counts_;
  double all_accepted_ = 0.0;
  double all_assumed_ = 0.0;  // expected number of accepted tokens according to the priors
};

}  // namespace billow::engine

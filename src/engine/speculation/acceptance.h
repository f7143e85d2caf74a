// How likely drafted tokens are to be the ones that a sequence chooses, learned from those that
// were compared, by where a draft came from and how sure its source was. Pure; one thread at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace billow::engine {

enum class DraftSource : uint8_t {
  kText,    // elsewhere in the sequence's own text
  kNear,    // close to where the draft before it went wrong
  kRecent,  // in the answers of others
  kModel,   // guessed by a draft model
};
inline constexpr size_t kDraftSources = 4;

class Acceptance {
 public:
  static constexpr size_t kGrades = 6;
  // How sure a source is of a token, in grades from 0 on: by how many tokens before it match, and
  // by the probability that a draft model gives it.
  static size_t grade_of_match(size_t match_length) noexcept;
  static size_t grade_of_probability(double probability) noexcept;

  // The probability that a drafted token is accepted, if all tokens drafted before it were.
  double chance(DraftSource source, size_t grade) const noexcept;
  void learn(DraftSource source, size_t grade, bool accepted) noexcept;
  // Lets what was learned count a little less: a text that was hard to guess may become easy.
  void fade() noexcept;

 private:
  struct Counts {
    double accepted = 0.0;
    double tried = 0.0;
  };

  std::array<std::array<Counts, kGrades>, kDraftSources> counts_;
  double all_accepted_ = 0.0;
  double all_assumed_ = 0.0;  // that would have been accepted, had the priors been right
};

}  // namespace billow::engine

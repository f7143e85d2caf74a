// How likely drafted tokens are to be the ones that a sequence chooses, learned from those that
// were compared, by where a draft came from and how long its match was. Pure; one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace billow::engine {

enum class DraftSource : uint8_t {
  kText,    // elsewhere in the sequence's own text
  kNear,    // close to where the draft before it went wrong
  kRecent,  // in the answers of others
};
inline constexpr size_t kDraftSources = 3;

class Acceptance {
 public:
  // The probability that a drafted token is accepted, if all tokens drafted before it were.
  // `match_length`: the tokens before it that match.
  double chance(DraftSource source, size_t match_length) const noexcept;
  void learn(DraftSource source, size_t match_length, bool accepted) noexcept;
  // Lets what was learned count a little less: a text that was hard to guess may become easy.
  void fade() noexcept;

 private:
  static constexpr size_t kLengthClasses = 6;
  struct Counts {
    double accepted = 0.0;
    double tried = 0.0;
  };
  static size_t class_of(size_t match_length) noexcept;

  std::array<std::array<Counts, kLengthClasses>, kDraftSources> counts_;
  double all_accepted_ = 0.0;
  double all_assumed_ = 0.0;  // that would have been accepted, had the priors been right
};

}  // namespace billow::engine

#include "context/ladder.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::context {

Ladder::Ladder(size_t top) {
  constexpr size_t kLowest = 512;
  BILLOW_CHECK(top > 0);
  for (size_t rung = kLowest; rung < top; rung *= 2) {
    rungs_.push_back(rung);
    if (rung > top / 2) break;  // the next one could overflow
  }
  rungs_.push_back(top);
}

Ladder::Ladder(std::span<const size_t> sizes, size_t cap) {
  for (const size_t size : sizes) {
    if (size == 0) throw Error(ErrorCode::kInvalidInput, "a context size is 0; give sizes above 0");
    if (size <= cap) rungs_.push_back(size);
  }
  if (rungs_.empty()) {
    const std::string min =
        sizes.empty() ? "none is given"
                      : "the smallest is " + std::to_string(*std::ranges::min_element(sizes));
    throw Error(ErrorCode::kInvalidInput, "no context size is within the maximum of " +
                                              std::to_string(cap) + " tokens: " + min +
                                              "; give a smaller one or raise the maximum");
  }
  std::ranges::sort(rungs_);
  rungs_.erase(std::unique(rungs_.begin(), rungs_.end()), rungs_.end());
}

size_t Ladder::holding(size_t n) const noexcept {
  const auto found = std::ranges::lower_bound(rungs_, n);
  return found == rungs_.end() ? 0 : *found;
}

size_t Ladder::first(size_t n_prompt) const {
  if (n_prompt > top()) {
    throw Error(ErrorCode::kTooLarge, "the prompt has " + std::to_string(n_prompt) +
                                          " tokens, which exceeds the context of " +
                                          std::to_string(top()) +
                                          "; shorten it or allow a larger context");
  }
  return n_prompt < top() ? holding(n_prompt + 1) : top();
}

}  // namespace billow::context

#include "engine/sampling/stop_strings.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace billow::engine {

StopStrings::StopStrings(std::vector<std::string> list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].empty()) patterns_.push_back(make_pattern(std::move(list[i]), i));
  }
}

StopStrings::Pattern StopStrings::make_pattern(std::string text, size_t index) {
  if (text.size() >= std::numeric_limits<uint32_t>::max()) {
    throw Error(ErrorCode::kTooLarge, "a stop string is longer than 4 GiB");
  }
  Pattern pattern{.text = std::move(text), .fallback = {}, .index = index};
  pattern.fallback.assign(pattern.text.size() + 1, 0);
  // The automaton reads its own text from the second byte on. Entry n is known before it is needed.
  for (size_t n = 1; n < pattern.text.size(); ++n) {
    pattern.advance(pattern.text[n]);
    pattern.fallback[n + 1] = static_cast<uint32_t>(pattern.n_matched);
  }
  pattern.n_matched = 0;
  return pattern;
}

void StopStrings::Pattern::advance(char byte) noexcept {
  while (n_matched > 0 && text[n_matched] != byte) n_matched = fallback[n_matched];
  if (text[n_matched] == byte) ++n_matched;
}

std::string StopStrings::feed(std::string_view piece) {
  if (stopped()) return {};
  const size_t n_before = held_.size();
  held_ += piece;
  for (size_t i = n_before; i < held_.size(); ++i) {
    const Pattern* found = nullptr;
    for (Pattern& pattern : patterns_) {
      pattern.advance(held_[i]);
      const bool complete = pattern.n_matched == pattern.text.size();
      if (complete && (found == nullptr || pattern.text.size() > found->text.size()))
        found = &pattern;
    }
    if (found == nullptr) continue;
    which_ = found->index;
    std::string rest = std::exchange(held_, {});
    rest.resize(i + 1 - found->text.size());
    return rest;
  }
  size_t n_held = 0;
  for (const Pattern& pattern : patterns_) n_held = std::max(n_held, pattern.n_matched);
  std::string free = held_.substr(0, held_.size() - n_held);
  held_.erase(0, free.size());
  return free;
}

std::string_view StopStrings::found() const noexcept {
  const auto found = std::ranges::find(patterns_, which_, [](const Pattern& pattern) {
    return std::optional<size_t>(pattern.index);
  });
  return found == patterns_.end() ? std::string_view() : found->text;
}

std::string StopStrings::flush() {
  for (Pattern& pattern : patterns_) pattern.n_matched = 0;
  return std::exchange(held_, {});
}

}  // namespace billow::engine

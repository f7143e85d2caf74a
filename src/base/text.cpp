#include "base/text.h"

#include <algorithm>

namespace billow {
namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), lower);
  return lowered;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::string_view trimmed(std::string_view text, std::string_view what) noexcept {
  const size_t begin = text.find_first_not_of(what);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(what) - begin + 1);
}

}  // namespace billow

#include "llama/log_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace billow::llama {
namespace {

// Returns whether the word is a time, such as "0.00.004.113".
bool is_time(std::string_view word) {
  return !word.empty() && word.find('.') != std::string_view::npos &&
         std::ranges::all_of(word, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

std::string_view take_word(std::string_view& rest) {
  const size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

constexpr std::array kKinds = {
    std::pair(std::string_view(" model buffer size"), BufferKind::kWeights),
    std::pair(std::string_view(" KV buffer size"), BufferKind::kKv),
    std::pair(std::string_view(" RS buffer size"), BufferKind::kKv),
    std::pair(std::string_view(" compute buffer size"), BufferKind::kScratch),
    std::pair(std::string_view(" output buffer size"), BufferKind::kScratch),
};

}  // namespace

LogLine parse_log_line(std::string_view line) {
  LogLine out;
  std::string_view rest = line;
  std::string_view level = take_word(rest);
  if (is_time(level)) {
    level = take_word(rest);
  }
  if (level == "E" || level == "W" || level == "I" || level == "D") {
    if (level == "E") out.level = LogLevel::kError;
    if (level == "W") out.level = LogLevel::kWarning;
    out.text = utf8::sanitized(trimmed(rest));
  } else {
    out.text = utf8::sanitized(trimmed(line));
  }
  return out;
}

BufferLine parse_buffer_line(std::string_view text) {
  for (const auto& [words, kind] : kKinds) {
    const size_t at = text.find(words);
    if (at == std::string_view::npos) continue;
    const size_t equals = text.find('=', at);
    const size_t unit = text.find(" MiB", at);
    if (equals == std::string_view::npos || unit == std::string_view::npos || unit < equals)
      return {};
    const std::string_view number = trimmed(text.substr(equals + 1, unit - equals - 1));
    double mib = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), mib);
    constexpr double kMax = 1e9;
    if (error != std::errc() || end != number.data() + number.size() || !(mib >= 0 && mib <= kMax))
      return {};
    const std::string_view before = trimmed(text.substr(0, at));
    const size_t blank = before.rfind(' ');
    return {
        .kind = kind,
        .device = std::string(blank == std::string_view::npos ? before : before.substr(blank + 1)),
        .bytes = static_cast<uint64_t>(mib * 1024.0 * 1024.0)};
  }
  return {};
}

}  // namespace billow::llama

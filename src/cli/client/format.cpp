#include "cli/client/format.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/utf8.h"

namespace billow::cli {
namespace {

struct Unit {
  uint64_t size;
  const char* name;
};

// Parses the `n` digits at `at`. Returns nullopt for other characters.
std::optional<int> digits(std::string_view text, size_t at, size_t n) {
  if (at + n > text.size()) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(at, n)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Parses "Z" or "+01:00" as minutes.
std::optional<int> zone_minutes(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() != 6 || text[3] != ':' || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const auto hours = digits(text, 1, 2);
  const auto minutes = digits(text, 4, 2);
  if (!hours || !minutes) return std::nullopt;
  const int all = *hours * 60 + *minutes;
  return text[0] == '-' ? -all : all;
}

std::string duration_words(std::chrono::milliseconds duration) {
  const int64_t seconds = duration.count() / 1000;
  if (seconds < 1) return "Less than a second";
  if (seconds == 1) return "1 second";
  if (seconds < 60) return fmt::format("{} seconds", seconds);
  const int64_t minutes = seconds / 60;
  if (minutes == 1) return "About a minute";
  if (minutes < 60) return fmt::format("{} minutes", minutes);
  const int64_t hours = (duration.count() + 1'800'000) / 3'600'000;  // rounded
  if (hours == 1) return "About an hour";
  if (hours < 48) return fmt::format("{} hours", hours);
  const int64_t days = hours / 24;
  if (days < 14) return fmt::format("{} days", days);
  if (days < 60) return fmt::format("{} weeks", days / 7);
  if (days < int64_t{365} * 2) return fmt::format("{} months", days / 30);
  return fmt::format("{} years", days / 365);
}

// Returns `value` / 10^n_digits without trailing zeros.
std::string decimal(uint64_t value, int n_digits) {
  uint64_t scale = 1;
  for (int i = 0; i < n_digits; ++i) scale *= 10;
  std::string text = std::to_string(value / scale);
  if (value % scale == 0) return text;
  std::string fraction = fmt::format("{:0{}}", value % scale, n_digits);
  fraction.resize(fraction.find_last_not_of('0') + 1);
  return text + "." + fraction;
}

// Code points that a later version of Unicode may use for wide characters.
bool is_in_wide_block(char32_t c) {
  return (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
}

// Vowels and finals of Hangul, which terminals draw in the cell of their initial.
bool is_medial_or_final(char32_t c) {
  return (c >= 0x1160 && c <= 0x11FF) || (c >= 0xD7B0 && c <= 0xD7FF);
}

}  // namespace

std::string human_bytes(uint64_t n_bytes) {
  constexpr std::array<Unit, 4> kUnits = {
      {{1'000'000'000'000, "TB"}, {1'000'000'000, "GB"}, {1'000'000, "MB"}, {1'000, "KB"}}};
  for (const Unit& unit : kUnits) {
    if (n_bytes < unit.size) continue;
    const uint64_t whole = n_bytes / unit.size;
    if (whole >= 10 || n_bytes % unit.size == 0) return fmt::format("{} {}", whole, unit.name);
    return fmt::format("{:.1f} {}", static_cast<double>(n_bytes) / static_cast<double>(unit.size),
                       unit.name);
  }
  return fmt::format("{} B", n_bytes);
}

std::string human_number(uint64_t n) {
  const auto part = [n](double unit) { return static_cast<double>(n) / unit; };
  const auto is_whole = [n](uint64_t unit) { return n % unit == 0; };
  if (n >= 1'000'000'000) {
    return fmt::format("{:.{}f}B", part(1e9), is_whole(1'000'000'000) ? 0 : 1);
  }
  if (n >= 1'000'000) return fmt::format("{:.{}f}M", part(1e6), is_whole(1'000'000) ? 0 : 2);
  if (n >= 1'000) return fmt::format("{:.0f}K", part(1e3));
  return std::to_string(n);
}

std::optional<WallTime> parse_time(std::string_view text) {
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto second = digits(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  std::string_view rest = text.substr(19);
  int64_t milliseconds = 0;
  if (rest.starts_with('.')) {
    const size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    std::string fraction(rest.substr(1, std::min<size_t>(3, end - 1)));
    fraction.resize(3, '0');
    milliseconds = *digits(fraction, 0, 3);
    rest.remove_prefix(end);
  }
  const auto zone = zone_minutes(rest);
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!zone || !date.ok()) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute - *zone) + std::chrono::seconds(*second) +
         std::chrono::milliseconds(milliseconds);
}

std::string relative_time(std::optional<WallTime> time, WallTime now) {
  // Go writes the year 1 if there is no time.
  constexpr WallTime kNoTime{std::chrono::sys_days{std::chrono::year(1) / 1 / 1}};
  if (!time || *time == kNoTime) return "Never";
  const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(now - *time);
  constexpr auto kYear = std::chrono::hours(24 * 365);
  if (ago <= -21 * kYear) return "Forever";
  if (ago.count() < 0) return duration_words(-ago) + " from now";
  return duration_words(ago) + " ago";
}

std::string go_duration(std::chrono::nanoseconds duration) {
  const bool is_negative = duration.count() < 0;
  const uint64_t n = is_negative ? uint64_t{0} - static_cast<uint64_t>(duration.count())
                                 : static_cast<uint64_t>(duration.count());
  const char* sign = is_negative ? "-" : "";
  if (n == 0) return "0s";
  if (n < 1'000) return fmt::format("{}{}ns", sign, n);
  if (n < 1'000'000) return fmt::format("{}{}\u00b5s", sign, decimal(n, 3));
  if (n < 1'000'000'000) return fmt::format("{}{}ms", sign, decimal(n, 6));
  constexpr uint64_t kMinute = 60'000'000'000;
  const std::string seconds = decimal(n % kMinute, 9) + "s";
  const uint64_t minutes = n / kMinute;
  if (minutes == 0) return sign + seconds;
  if (minutes < 60) return fmt::format("{}{}m{}", sign, minutes, seconds);
  return fmt::format("{}{}h{}m{}", sign, minutes / 60, minutes % 60, seconds);
}

size_t column_width(char32_t c) noexcept {
  if (is_medial_or_final(c)) return 0;
  const auto code = static_cast<utf8proc_int32_t>(c);
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
      return 0;
    case UTF8PROC_CATEGORY_CN:
      return is_in_wide_block(c) ? 2 : 1;
    case UTF8PROC_CATEGORY_MC:  // terminals give these marks a cell, unlike utf8proc
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return 1;
    default:
      return static_cast<size_t>(utf8proc_charwidth(code));
  }
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const utf8::CodePoint c = utf8::decode(text);
    width += column_width(c.value);
    text.remove_prefix(c.n_bytes);
  }
  return width;
}

std::string table_text(const Row& titles, const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  const auto measure = [&widths](const Row& row) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  };
  measure(titles);
  for (const Row& row : rows) measure(row);
  std::string out;
  const auto add = [&](const Row& row, size_t last_padding) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? row[i] : "";
      out += cell;
      out.append(widths[i] - display_width(cell) + (i + 1 == widths.size() ? last_padding : 4),
                 ' ');
    }
    out += '\n';
  };
  if (!titles.empty()) add(titles, 1);
  for (const Row& row : rows) add(row, 4);
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= n ? kLetters[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace billow::cli

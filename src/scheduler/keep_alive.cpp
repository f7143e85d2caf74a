#include "scheduler/keep_alive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace billow::scheduler {
namespace {

constexpr uint64_t kMaxMagnitude = uint64_t{1}
                                   << 63;  // nanoseconds of the min duration, without the sign

struct Unit {
  std::string_view name;
  uint64_t nanoseconds;
};
constexpr std::array<Unit, 8> kUnits = {{{"ns", 1},
                                         {"us", 1'000},
                                         {"\u00b5s", 1'000},  // micro sign
                                         {"\u03bcs", 1'000},  // Greek letter mu
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Quotes like Go's time package, which differs from %q: every byte of a multi-byte character is an
// escape.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte >= 0x80) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

std::string_view take_digits(std::string_view& rest) {
  size_t n = 0;
  while (n < rest.size() && is_digit(rest[n])) ++n;
  const std::string_view digits = rest.substr(0, n);
  rest.remove_prefix(n);
  return digits;
}

// Returns nullopt above kMaxMagnitude.
std::optional<uint64_t> whole_of(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    if (value > kMaxMagnitude / 10) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
    if (value > kMaxMagnitude) return std::nullopt;
  }
  return value;
}

// Returns the nanoseconds of "0.digits" units, rounded down. Ignores digits beyond 63 bits.
uint64_t fraction_of(std::string_view digits, uint64_t unit) {
  uint64_t value = 0;
  double scale = 1.0;
  for (const char c : digits) {
    if (value > (kMaxMagnitude - 1) / 10) break;
    const uint64_t next = value * 10 + static_cast<uint64_t>(c - '0');
    if (next > kMaxMagnitude) break;
    value = next;
    scale *= 10.0;
  }
  return static_cast<uint64_t>(static_cast<double>(value) * (static_cast<double>(unit) / scale));
}

Error invalid(std::string_view text) {
  return {ErrorCode::kInvalidInput, "time: invalid duration " + quoted(text)};
}

uint64_t take_unit(std::string_view& rest, std::string_view text) {
  const size_t n = std::min(rest.find_first_of(".0123456789"), rest.size());
  const std::string_view name = rest.substr(0, n);
  if (name.empty())
    throw Error(ErrorCode::kInvalidInput, "time: missing unit in duration " + quoted(text));
  rest.remove_prefix(n);
  for (const Unit& unit : kUnits)
    if (unit.name == name) return unit.nanoseconds;
  throw Error(ErrorCode::kInvalidInput,
              "time: unknown unit " + quoted(name) + " in duration " + quoted(text));
}

// Parses one number and its unit.
uint64_t take_part(std::string_view& rest, std::string_view text) {
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
  }
  const std::optional<uint64_t> value = whole_of(whole);
  if (!value || (whole.empty() && fraction.empty())) throw invalid(text);
  const uint64_t unit = take_unit(rest, text);
  if (*value > kMaxMagnitude / unit) throw invalid(text);
  const uint64_t nanoseconds = *value * unit + fraction_of(fraction, unit);
  if (nanoseconds > kMaxMagnitude) throw invalid(text);
  return nanoseconds;
}

}  // namespace

Duration parse_duration(std::string_view text) {
  std::string_view rest = text;
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest == "0") return Duration::zero();
  if (rest.empty()) throw invalid(text);
  uint64_t total = 0;
  while (!rest.empty()) {
    const uint64_t part = take_part(rest, text);
    if (part > kMaxMagnitude - total) throw invalid(text);
    total += part;
  }
  if (is_negative)
    return Duration(total == kMaxMagnitude ? INT64_MIN : -static_cast<int64_t>(total));
  if (total == kMaxMagnitude) throw invalid(text);
  return Duration(static_cast<int64_t>(total));
}

Duration keep_alive_from_text(std::string_view text) {
  const Duration duration = parse_duration(text);
  return duration < Duration::zero() ? kForever : duration;
}

Duration keep_alive_from_seconds(double seconds) {
  constexpr double kNanosecondsPerSecond = 1e9;
  const double nanoseconds = seconds * kNanosecondsPerSecond;
  if (seconds < 0 || !(nanoseconds < static_cast<double>(kMaxMagnitude))) return kForever;
  return Duration(static_cast<int64_t>(nanoseconds));
}

}  // namespace billow::scheduler

#include "base/byte_size.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace billow {
namespace {

// A number without sign or exponent. The fraction is separate, so that large integers stay exact.
struct Decimal {
  uint64_t whole = 0;
  double fraction = 0.0;
};

// Removes the number at the start of `text` and returns it. Returns nullopt if there is no number
// or it is too large.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.whole);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with('.')) return number;
  const size_t n = text.substr(1).find_first_not_of("0123456789");
  const std::string_view digits = text.substr(0, n == std::string_view::npos ? n : n + 1);
  if (digits.size() < 2) return std::nullopt;
  std::from_chars(digits.data(), digits.data() + digits.size(), number.fraction,
                  std::chars_format::fixed);
  text.remove_prefix(digits.size());
  return number;
}

// Returns the power of 1024 for a unit such as "", "G", "GB" or "GiB".
std::optional<int> power_of_unit(std::string_view unit) {
  std::string lower;
  for (const char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 0;
  constexpr std::string_view kLetters = "kmgt";
  const size_t letter = kLetters.find(lower[0]);
  const std::string_view rest = std::string_view(lower).substr(1);
  if (letter == std::string_view::npos) return std::nullopt;
  if (!rest.empty() && rest != "b" && rest != "ib") return std::nullopt;
  return static_cast<int>(letter) + 1;
}

// Returns nullopt if the size does not fit in 64 bits.
std::optional<uint64_t> bytes_of(const Decimal& number, int power) {
  const uint64_t unit = uint64_t{1} << (10 * power);
  if (number.whole > UINT64_MAX / unit) return std::nullopt;
  // The fraction is below 1 unit, so the sum cannot overflow.
  return number.whole * unit + static_cast<uint64_t>(number.fraction * static_cast<double>(unit));
}

}  // namespace

uint64_t parse_byte_size(std::string_view text, uint64_t whole) {
  std::string_view rest = text;
  const std::optional<Decimal> number = take_decimal(rest);
  if (number && rest == "%" && whole != 0) {
    const double share = (static_cast<double>(number->whole) + number->fraction) / 100.0;
    if (share < 1.0) return static_cast<uint64_t>(static_cast<double>(whole) * share);
    if (share == 1.0) return whole;
  } else if (number) {
    const std::optional<int> power = power_of_unit(rest);
    const std::optional<uint64_t> bytes = power ? bytes_of(*number, *power) : std::nullopt;
    if (bytes) return *bytes;
  }
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("'{}' is not a size; write bytes, or a number and K, M, G or T, "
                          "like 512M or 1.5GiB{}",
                          text, whole == 0 ? "" : ", or a share of at most 100%"));
}

std::string format_byte_size(uint64_t n_bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (n_bytes < 1024) return fmt::format("{} B", n_bytes);
  double size = static_cast<double>(n_bytes);
  size_t unit = 0;
  for (; size >= 1023.95; ++unit) size /= 1024;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace billow

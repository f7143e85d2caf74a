#include "base/base64.h"

#include <array>
#include <cstdint>

namespace billow {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNone = 64;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNone);
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<uint8_t>(i);
  return values;
}();

uint32_t byte_at(std::string_view bytes, size_t i) {
  return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
}

}  // namespace

std::string base64_encoded(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t group =
        byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
    for (size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * k) & 63];
  }
  return text;
}

std::optional<std::string> base64_decoded(std::string_view text, size_t* fault) {
  const auto refuse = [&](size_t at) {
    if (fault) *fault = at;
    return std::nullopt;
  };
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  size_t n_digits = 0;
  size_t n_padding = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n' || c == '\r') continue;
    if (c == '=') {
      // Padding can only follow two or three digits: two `=` after two digits, one after three.
      if (n_digits < 2 || n_digits + n_padding >= 4) return refuse(i);
      ++n_padding;
      continue;
    }
    const uint8_t value = kValues[static_cast<unsigned char>(c)];
    if (value == kNone || n_padding > 0) return refuse(i);
    group = group << 6 | value;
    if (++n_digits < 4) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 255);
    group = 0;
    n_digits = 0;
  }
  if (n_digits == 0 && n_padding == 0) return bytes;
  if (n_digits + n_padding != 4) return refuse(text.size());
  group <<= 6 * n_padding;
  for (size_t k = 0; k + 1 < n_digits; ++k) bytes += static_cast<char>(group >> (16 - 8 * k) & 255);
  return bytes;
}

}  // namespace billow

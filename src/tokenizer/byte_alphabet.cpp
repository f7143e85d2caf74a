#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace billow::tokenizer {
namespace {

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = is_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();
constexpr char32_t kLastCharacter = 0x100 + 67;

constexpr std::array<int16_t, kLastCharacter + 1> make_bytes() {
  std::array<int16_t, kLastCharacter + 1> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kLastCharacter + 1> kBytes = make_bytes();

}  // namespace

char32_t byte_to_character(uint8_t byte) noexcept { return kCharacters[byte]; }

std::optional<uint8_t> character_to_byte(char32_t character) noexcept {
  if (character > kLastCharacter || kBytes[character] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[character]);
}

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) utf8::append(text, kCharacters[static_cast<uint8_t>(byte)]);
  return text;
}

void append_unspelled(std::string_view text, std::string& bytes) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    if (first > ' ' && first < 0x7F) {  // most characters represent themselves
      bytes.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    const utf8::CodePoint point = utf8::decode(text);
    const auto byte = point.valid ? character_to_byte(point.value) : std::nullopt;
    if (byte) {
      bytes.push_back(static_cast<char>(*byte));
    } else {
      bytes += text.substr(0, point.n_bytes);
    }
    text.remove_prefix(point.n_bytes);
  }
}

}  // namespace billow::tokenizer

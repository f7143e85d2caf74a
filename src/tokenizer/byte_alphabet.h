// The alphabet of byte-level BPE: each byte as one printable character, so that any bytes can be
// written as text. Printable ASCII, U+00A1-U+00AC and U+00AE-U+00FF stand for themselves; the other
// 68 bytes are U+0100 and up, in order. (GPT-2.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::tokenizer {

char32_t byte_to_character(uint8_t byte) noexcept;
std::optional<uint8_t> character_to_byte(char32_t character) noexcept;

// The bytes written in the alphabet, as UTF-8.
std::string spell_bytes(std::string_view bytes);
// The way back, appended to `bytes`. Characters outside of the alphabet stay as they are.
void append_unspelled(std::string_view text, std::string& bytes);

}  // namespace billow::tokenizer

// The alphabet of byte-level BPE (from GPT-2): one printable character for each byte, so that any
// bytes can be written as text. Printable ASCII, U+00A1-U+00AC and U+00AE-U+00FF represent
// themselves. The other 68 bytes are U+0100 and up, in ascending order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::tokenizer {

char32_t byte_to_character(uint8_t byte) noexcept;
std::optional<uint8_t> character_to_byte(char32_t character) noexcept;

// Returns the bytes in this alphabet, as UTF-8.
std::string spell_bytes(std::string_view bytes);
// Appends the bytes of a text in this alphabet to `bytes`. Characters outside of the alphabet stay
// unchanged.
void append_unspelled(std::string_view text, std::string& bytes);

}  // namespace billow::tokenizer

// Parses and formats numbers of bytes in human-readable form. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow {

// Parses a size such as "65536", "512M" or "1.5GiB" and returns its bytes. K, M, G and T are powers
// of 1024, in upper or lower case. "B" or "iB" may follow them. A fraction of a byte is dropped. If
// `whole` is not 0, "80%" is that share of `whole`. Throws Error (kInvalidInput) for any other text
// and for more than 64 bits.
uint64_t parse_byte_size(std::string_view text, uint64_t whole = 0);

// Returns text such as "512 B" or "93.8 MiB".
std::string format_byte_size(uint64_t n_bytes);

}  // namespace billow

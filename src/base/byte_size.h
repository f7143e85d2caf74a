// Numbers of bytes as people write them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow {

// The bytes that `text` says: "65536", "512M", "1.5GiB". K, M, G and T are powers of 1024, in upper
// or lower case, with or without "B" or "iB" behind them; a part of a byte is left out. Where
// `whole` is not 0, "80%" is that share of it. Throws Error (kInvalidInput) for anything else, and
// for what is more than 64 bits hold.
uint64_t parse_byte_size(std::string_view text, uint64_t whole = 0);

// "512 B", "93.8 MiB"
std::string format_byte_size(uint64_t n_bytes);

}  // namespace billow

// Reads the numbers in the head of a response with a part of a file (RFC 9110, 14.4). Pure
// functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "registry/transport.h"

namespace billow::registry {

// The numbers of "bytes 100-199/5000". A number is missing if it is malformed or "*".
struct ContentRange {
  std::optional<uint64_t> first;
  std::optional<uint64_t> total;
};
ContentRange parse_content_range(std::string_view value);

// Returns the size of the whole file that a response with status 200 or 206 sends: Content-Length,
// or the total of Content-Range. Returns nullopt if the head does not say it.
std::optional<uint64_t> whole_bytes(const Reply& head);

// Returns the number if the text consists of decimal digits only.
std::optional<uint64_t> number_in(std::string_view text);

}  // namespace billow::registry

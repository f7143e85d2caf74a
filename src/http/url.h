// Parses request targets: percent-encoding, path and query. Pure functions. Malformed input returns
// nullopt, never an exception.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::http {

// Returns whether `c` is a letter, a digit, or one of -._~ (RFC 3986, 2.3).
bool is_unreserved(char c) noexcept;

// Returns `text` with every %XX replaced by its byte, and with '+' as a space if `plus_is_blank`,
// as in queries. Returns nullopt if two hexadecimal digits do not follow a '%'.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank = false);

// Returns `text` with every byte except letters, digits and -._~ written as %XX. The result can be
// a path segment, or a name or value of a query.
std::string percent_encoded(std::string_view text);

struct Target {
  std::string_view raw_path;   // a view of the parsed text, still encoded; begins with '/'
  std::string_view raw_query;  // the part after the '?', still encoded
  std::string path;
  Parameters query;
};

// Splits a request target: "/path?query" or the absolute form "http://host/path?query". The Target
// refers to `text`.
std::optional<Target> parse_target(std::string_view text);

}  // namespace billow::http

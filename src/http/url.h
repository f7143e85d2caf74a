// Targets of requests: percent-encoding, path and query. Pure functions; malformed input is a
// nullopt, never an exception.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::http {

// A letter, a digit, or one of -._~ (RFC 3986, 2.3).
bool is_unreserved(char c) noexcept;

// `text` with every %XX replaced by its byte, and with '+' as a blank where a query asks for it.
// Nullopt where a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank = false);

// `text` with every byte but letters, digits and -._~ as %XX: fit for one segment of a path, or
// for a name or value of a query.
std::string percent_encoded(std::string_view text);

struct Target {
  std::string_view raw_path;   // in the text that was parsed, still encoded; begins with '/'
  std::string_view raw_query;  // behind the '?', still encoded
  std::string path;
  Parameters query;
};

// Splits a request target: "/path?query", or the absolute form "http://host/path?query". The
// Target refers to `text`.
std::optional<Target> parse_target(std::string_view text);

}  // namespace billow::http

// Distinguishes the typed parts of an edited text from pasted parts. Plain data.
#pragma once

#include <cstddef>
#include <string>

namespace billow::cli {

// Number of typed bytes at both ends of a text. By default, all bytes were typed. Only typed text
// can be a command.
struct TypedEnds {
  size_t head = std::string::npos;
  size_t tail = std::string::npos;
};

}  // namespace billow::cli

// A text that a user edited, with what tells typed text from pasted text. Pure data.
#pragma once

#include <cstddef>
#include <string>

namespace billow::cli {

// Only what is typed can be a command. The bytes at both ends of a text that were typed; by
// default all of it was.
struct TypedEnds {
  size_t head = std::string::npos;
  size_t tail = std::string::npos;
};

}  // namespace billow::cli

// Identifies the build of the program.
#pragma once

#include <string>

namespace billow {

// Returns the program's GNU build id in hexadecimal digits. Two builds of different code have
// different ids. Empty if the linker wrote no id. Any thread.
std::string build_id();

}  // namespace billow

// Which build of the program this is.
#pragma once

#include <string>

namespace billow {

// The GNU build id of the program in hexadecimal digits: two builds of different code have
// different ids. Empty if the linker wrote none. Any thread.
std::string build_id();

}  // namespace billow

// For tests: where the sources are. Only one object file contains this path. So the object files of
// tests are the same in every checkout, and the compiler cache can reuse them.
#pragma once

#include <string>

namespace billow {

// Returns the path of the checkout. Thread-safe.
std::string source_dir();

}  // namespace billow

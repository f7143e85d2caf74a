// For tests: where the sources are. Only one object has this path, so the objects of all tests are
// the same in every checkout, and the compiler cache serves them.
#pragma once

#include <string>

namespace billow {

// Returns the path of the checkout. Thread-safe.
std::string source_dir();

}  // namespace billow

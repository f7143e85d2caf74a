// Unique ids for answers and their parts. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::api {

// Returns `prefix` and n random letters or digits.
std::string random_id(std::string_view prefix, size_t n);

}  // namespace billow::api

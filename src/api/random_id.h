// Names for answers and their parts that no other has. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow::api {

// `prefix` and n random letters or digits.
std::string random_id(std::string_view prefix, size_t n);

}  // namespace billow::api

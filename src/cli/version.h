// The output of `billow --version`.
#pragma once

#include <string>

namespace billow::cli {

// Returns text like "billow 0.1.0 (commit abc1234), GCC 12.2.0, kernels avx512". Throws Error if
// BILLOW_ISA names no usable kernel table.
std::string version_text();

}  // namespace billow::cli

// What `billow --version` says.
#pragma once

#include <string>

namespace billow::cli {

// "billow 0.1.0 (commit abc1234), GCC 12.2.0, kernels avx512". Throws Error when BILLOW_ISA names
// no usable table.
std::string version_text();

}  // namespace billow::cli

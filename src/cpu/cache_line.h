// The unit in which cores exchange memory. Variables that different threads write often belong on
// different lines, because a write takes the whole line away from all other cores.
#pragma once

#include <cstddef>

namespace billow::cpu {

inline constexpr size_t kCacheLine = 64;

}  // namespace billow::cpu

// Logits that llama.cpp computes for the tiny variants, recorded so that the reference is held to
// them without llama.cpp being there. Made by tests/oracle/record_golden.sh.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace billow::reference {

inline constexpr size_t kGoldenStride = 32;  // the values are those of tokens 0, 32, 64, ...

struct GoldenLogits {
  std::string_view variant;
  std::array<float, 9> values;  // after the last of golden_tokens()
};

// Eighty tokens: more than the windows and the original contexts of the variants.
std::vector<int32_t> golden_tokens();
std::span<const GoldenLogits> golden_logits();

}  // namespace billow::reference

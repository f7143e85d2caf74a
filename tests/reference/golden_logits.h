// Recorded logits of llama.cpp for the tiny variants. Tests compare the reference with them without
// llama.cpp. tests/oracle/record_golden.sh makes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace billow::reference {

inline constexpr size_t kGoldenStride = 32;  // values are logits of tokens 0, 32, 64, ...

struct GoldenLogits {
  std::string_view variant;
  std::array<float, 9> values;  // logits after the last of golden_tokens()
};

// Returns eighty tokens: more than the windows and the original contexts of the variants.
std::vector<int32_t> golden_tokens();
std::span<const GoldenLogits> golden_logits();

}  // namespace billow::reference

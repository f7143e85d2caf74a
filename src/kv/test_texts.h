// Texts for tests, and the layers whose KV they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kv/layout.h"

namespace billow::kv {

// One group without a window, one with a window of 100.
inline const std::vector<LayerNeed> kNeeds = {{1, 16, 16, 0}, {1, 16, 16, 100}};

inline std::vector<int32_t> text(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 1000);
  return tokens;
}

inline std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace billow::kv

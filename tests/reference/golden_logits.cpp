#include "reference/golden_logits.h"

namespace billow::reference {
namespace {

constexpr size_t kTokens = 80;

constexpr GoldenLogits kGolden[] = {
#include "reference/golden_logits.inc"
};

}  // namespace

std::vector<int32_t> golden_tokens() {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < kTokens; ++i) tokens.push_back(static_cast<int32_t>(i * i * 7 % 293));
  return tokens;
}

std::span<const GoldenLogits> golden_logits() { return kGolden; }

}  // namespace billow::reference

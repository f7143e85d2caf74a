#include "tokenizer/same_vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace billow::tokenizer {

std::string vocabulary_difference(const gguf::File& a, const gguf::File& b) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  constexpr size_t kMaxPadding = 128;
  const gguf::Array* const of_a = a.get_string_array(kTokens);
  const gguf::Array* const of_b = b.get_string_array(kTokens);
  if (of_a == nullptr || of_b == nullptr) return "one of them has no vocabulary";
  const std::vector<std::string_view>& first = of_a->strings;
  const std::vector<std::string_view>& second = of_b->strings;
  const auto [min, max] = std::minmax({first.size(), second.size()});
  if (max - min > kMaxPadding)
    return "they have " + std::to_string(first.size()) + " and " + std::to_string(second.size()) +
           " tokens";
  for (size_t i = 0; i < min; ++i)
    if (first[i] != second[i]) return "token " + std::to_string(i) + " is not the same";
  return "";
}

}  // namespace billow::tokenizer

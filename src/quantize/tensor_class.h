// What tensors are to a mixture, by their names. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace billow::quantize {

enum class Class : uint8_t {
  kOutput,
  kEmbedding,
  kValue,
  kKey,
  kQuery,
  kAttentionOutput,
  kUp,
  kGate,
  kDown,
  kOther,
};
constexpr size_t kNClasses = 10;

Class class_of(std::string_view name) noexcept;

// Whether the architecture wants the matrix of that name as it is: small ones that a model is
// sensitive to, and what is no matrix of weights.
bool is_kept(std::string_view name, std::string_view architecture) noexcept;
// Whether the architecture wants the matrix of that name in Q8_0 at least.
bool is_fine(std::string_view name, std::string_view architecture) noexcept;

}  // namespace billow::quantize

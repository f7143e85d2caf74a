// Classifies tensors by their names, for the rules of mixtures. Pure functions; thread-safe.
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

// Returns whether the architecture keeps the matrix of this name unquantised. Kept are small
// matrices that a model is sensitive to, and tensors that are not weight matrices.
bool is_kept(std::string_view name, std::string_view architecture) noexcept;
// Returns whether the architecture needs at least Q8_0 for the matrix of this name.
bool is_fine(std::string_view name, std::string_view architecture) noexcept;

}  // namespace billow::quantize

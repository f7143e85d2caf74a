// The table of the weight formats that Billow computes with. It has a row for each format in
// type_list.h. The header of a format in types/ describes its bytes. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/packing.h"

namespace billow::quant {

// The numbers are those of GGUF files.
enum class Type : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
  kQ2_0 = 42,
};

struct TypeRow {
  Type type;
  std::string_view name;  // as users write it: "Q4_K"
  uint32_t group_len;     // elements of a group; a row has only whole groups
  uint32_t group_bytes;
  Packing packing;  // its packed form for the kernels; packing.h
  bool integer;     // computed with 8-bit activations; otherwise in floating point
  // Reference code for one row of n elements, n a multiple of group_len.
  void (*decode)(const std::byte* row, size_t n, float* out) noexcept;
  void (*encode)(const float* in, size_t n, std::byte* row) noexcept;
};

// Returns all rows, in order of their numbers.
std::span<const TypeRow> types() noexcept;

// Returns null for a GGUF number that Billow does not compute with.
const TypeRow* find_type(uint32_t gguf_id) noexcept;
// Returns null for an unknown name. Ignores the case of letters.
const TypeRow* find_type(std::string_view name) noexcept;
// Returns the row of a Type. Never fails.
const TypeRow& row(Type type) noexcept;

// Returns the bytes of n elements. REQUIRES: n is a multiple of the group length.
size_t row_bytes(Type type, size_t n) noexcept;

}  // namespace billow::quant

// Encoders of every type that a model can be quantised to. Their bytes equal those of
// llama-quantize, with or without an importance of the columns. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "quant/type.h"

namespace billow::quantize {

struct Rows {
  std::span<const float> values;  // whole rows, one after the other; finite
  size_t row_len = 0;
  const float* importance = nullptr;  // one number per column, row_len of them; null: none
};

// Returns whether a model can be quantised to the type.
bool can_encode(quant::Type type) noexcept;
// Returns whether the type needs an importance to encode rows.
bool needs_importance(quant::Type type) noexcept;

// Writes the bytes of all rows. REQUIRES: can_encode(type); row_len is a multiple of the type's
// group length; an importance if the type needs one; `out` has room for quant::row_bytes() of all
// values.
void encode_rows(quant::Type type, const Rows& rows, std::byte* out) noexcept;

}  // namespace billow::quantize

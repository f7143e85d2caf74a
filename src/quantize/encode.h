// Encoders of every type that a model can be quantised to: those of llama-quantize, byte for byte,
// with or without an importance of the columns. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "quant/type.h"

namespace billow::quantize {

struct Rows {
  std::span<const float> values;  // whole rows, one after the other; finite
  size_t row_len = 0;
  const float* importance = nullptr;  // of each column, row_len of them; null: none
};

// Whether a model can be quantised to the type.
bool can_encode(quant::Type type) noexcept;
// Whether rows cannot be encoded without an importance.
bool needs_importance(quant::Type type) noexcept;

// Writes the rows' bytes. REQUIRES: a type that can be encoded, whose group divides row_len,
// an importance where the type needs one, and room for quant::row_bytes() of all values.
void encode_rows(quant::Type type, const Rows& rows, std::byte* out) noexcept;

}  // namespace billow::quantize

// Converts a model's weights to 32-bit floats, for exact comparisons with other programs.
#pragma once

#include <cstdint>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::convert {

// Returns the size of all weights as 32-bit floats, in bytes.
uint64_t float_weight_bytes(const gguf::File& file);

// Returns a writer for one file in which every weight of `file` is decoded. Tensors in a format
// that Billow does not support stay unchanged. REQUIRES: `file` outlives the writer.
gguf::Writer with_float_weights(const gguf::File& file);

}  // namespace billow::convert

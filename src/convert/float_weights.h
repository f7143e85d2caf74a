// A model with its weights as 32-bit floats, to compare with other programs to the last digit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gguf/file.h"

namespace billow::convert {

// Bytes of the weights as 32-bit floats.
uint64_t float_weight_bytes(const gguf::File& file);

// The same file in memory with every weight decoded. Tensors in a format that Billow does not know
// stay as they are.
std::vector<std::byte> with_float_weights(const gguf::File& file);

}  // namespace billow::convert

// A model with its weights as 32-bit floats, to compare with other programs to the last digit.
#pragma once

#include <cstdint>

#include "gguf/file.h"
#include "gguf/writer.h"

namespace billow::convert {

// Bytes of the weights as 32-bit floats.
uint64_t float_weight_bytes(const gguf::File& file);

// One file with every weight of `file` decoded, which must outlive the writer. Tensors in a format
// that Billow does not know stay as they are.
gguf::Writer with_float_weights(const gguf::File& file);

}  // namespace billow::convert

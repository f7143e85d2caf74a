// Encodes the rows of a TensorPart in a type of GGUF, piece by piece while writing. Thread-safe.
#pragma once

#include <string>

#include "convert/tensor_part.h"
#include "convert/weights.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// Returns F32, F16, BF16 or NVFP4. REQUIRES: the tensor has one of these types.
quant::Type source_type(const SafeTensor& tensor);

// Encodes all rows of the part in `type` and passes them to `sink`. Needs memory for pieces of
// about 1 MB, for one row, or for one matrix if matrices are transposed. If `type` is F16, throws
// the Error of check_f16_range(). REQUIRES: the length of a result row is a multiple of the type's
// group.
void write_part(const Weights& weights, const TensorPart& part, const std::string& name,
                quant::Type type, const gguf::Writer::Sink& sink);

// Throws Error (kTooLarge) with the tensor's name for a finite number that F16 cannot represent.
void check_f16_range(const std::string& name, std::span<const float> values);

}  // namespace billow::convert

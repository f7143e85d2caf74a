// The rows of a TensorPart in another type, made piece after piece while they are written. Any
// thread.
#pragma once

#include <string>

#include "convert/tensor_part.h"
#include "convert/weights.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// F32, F16 or BF16. REQUIRES: the tensor is of one of these.
quant::Type source_type(const SafeTensor& tensor);

// Hands all rows of the part to `sink`, in the file's type. Takes memory for a piece of about 1 MB,
// for one row, or for one matrix where matrices are turned. Throws Error (kTooLarge) that names
// `name` for a number that F16 cannot hold. REQUIRES: a row of the result is a multiple of the
// type's group.
void write_part(const Weights& weights, const TensorPart& part, const std::string& name,
                quant::Type type, const gguf::Writer::Sink& sink);

// Refuses what F16 cannot hold.
void check_f16_range(const std::string& name, std::span<const float> values);

}  // namespace billow::convert

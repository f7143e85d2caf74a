// Encodes the rows of a TensorPart in a type of GGUF, piece by piece while writing. Thread-safe.
#pragma once

#include "convert/row_sink.h"
#include "convert/tensor_part.h"
#include "convert/weights.h"
#include "quant/type.h"

namespace billow::convert {

// Returns F32, F16, BF16 or NVFP4. REQUIRES: the tensor has one of these types.
quant::Type source_type(const SafeTensor& tensor);

// Passes all rows of the part to `out`, in its type. Needs memory for pieces of about 1 MB, for one
// row, or for one matrix if matrices are transposed. Throws the Errors of RowSink. REQUIRES: the
// length of a result row is a multiple of the type's group.
void write_part(const Weights& weights, const TensorPart& part, RowSink& out);

}  // namespace billow::convert

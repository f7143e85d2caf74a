// Encodes the rows of a tensor in another type, piece by piece while writing. Thread-safe.
#pragma once

#include "convert/planned_tensor.h"
#include "convert/weights.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// Reads the planned rows, encodes them in `type` and passes them to `sink`. Needs memory for one
// piece of about 1 MB, or for one row. REQUIRES: row_len is a multiple of the type's group. Throws
// Error (kInvalidInput) that names the tensor for a number that is NaN, infinite or too large for
// the type.
void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink);

}  // namespace billow::convert

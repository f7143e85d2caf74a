// The rows of a tensor in another type, made piece after piece while they are written. Any thread.
#pragma once

#include "convert/planned_tensor.h"
#include "convert/weights.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// Reads the planned rows and hands them to `sink`, in the file's type. Takes memory for one piece,
// about 1 MB, or one row. REQUIRES: row_len is a multiple of the type's group. Throws Error
// (kTooLarge) for a number that F16 cannot hold.
void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink);

}  // namespace billow::convert

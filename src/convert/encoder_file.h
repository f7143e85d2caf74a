// Describes the GGUF file of an encoder: its metadata and its tensor plan. Not thread-safe.
#pragma once

#include <vector>

#include "convert/convert.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes general.architecture, the sizes, the pooling and the vocabulary. Returns the tensor plan.
// Throws Error with one line for a model that cannot be converted.
std::vector<PlannedTensor> describe_encoder(const Sources& sources, Weights& weights,
                                            const Listener& listener, gguf::Writer& writer);

}  // namespace billow::convert

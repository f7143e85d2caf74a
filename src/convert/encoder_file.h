// What the file of an encoder has: its metadata and the plan of its tensors. One thread.
#pragma once

#include <vector>

#include "convert/convert.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes general.architecture, the sizes, the pooling and the vocabulary, and returns the tensors.
// Throws Error in one line for a model that cannot be converted.
std::vector<PlannedTensor> describe_encoder(const Sources& sources, Weights& weights,
                                            const Listener& listener, gguf::Writer& writer);

}  // namespace billow::convert

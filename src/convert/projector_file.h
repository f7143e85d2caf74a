// Describes the GGUF file of a projector: metadata and tensor plan. A projector is the part of a
// vision-language model that makes embeddings from pictures. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/planned_tensor.h"
#include "convert/projector_family.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// Returns the family of the model's part for pictures. Returns null if config.json has no such
// part, or if it cannot be converted.
const ProjectorFamily* find_projector_family(const Sources& sources);

// Writes general.architecture, general.type, the sizes and how pictures are prepared. Returns the
// tensor plan, in which each tensor has its type. Throws Error with one line for a model whose part
// for pictures cannot be converted.
std::vector<PlannedTensor> describe_projector(const Sources& sources, Weights& weights,
                                              quant::Type matrix_type, const Listener& listener,
                                              gguf::Writer& writer);

}  // namespace billow::convert

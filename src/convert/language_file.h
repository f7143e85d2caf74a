// Describes the GGUF file of a language model: metadata and tensor plan. Not thread-safe.
#pragma once

#include <vector>

#include "convert/convert.h"
#include "convert/language_family.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// Returns the family of the class in config.json, or null for an unsupported class. Throws Error if
// the class is missing.
const LanguageFamily* find_language_family(const Sources& sources);

struct LanguageTarget {
  const Listener& listener;
  bool notes_pictures = true;  // that the part for pictures is not in the file
};

// Writes general.architecture, the sizes, the vocabulary and the chat templates. Returns the tensor
// plan. Throws Error with one line for a model that cannot be converted.
std::vector<PlannedTensor> describe_language_model(const Sources& sources,
                                                   const LanguageFamily& family, Weights& weights,
                                                   const LanguageTarget& target,
                                                   gguf::Writer& writer);

}  // namespace billow::convert

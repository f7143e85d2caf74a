// What the file of a language model has: its metadata and the plan of its tensors. One thread.
#pragma once

#include <vector>

#include "convert/convert.h"
#include "convert/language_family.h"
#include "convert/planned_tensor.h"
#include "convert/sources.h"
#include "convert/weights.h"
#include "gguf/writer.h"

namespace billow::convert {

// The family of config.json's class; null where it is none of these. Throws Error where the class
// is missing.
const LanguageFamily* find_language_family(const Sources& sources);

// Writes general.architecture, the sizes, the vocabulary and the chat templates, and returns the
// tensors. Throws Error in one line for a model that cannot be converted.
std::vector<PlannedTensor> describe_language_model(const Sources& sources,
                                                   const LanguageFamily& family, Weights& weights,
                                                   const Listener& listener, gguf::Writer& writer);

}  // namespace billow::convert

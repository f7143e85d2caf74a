// What the conversion of an adapter knows of the model that it was made for. Plain data; any
// thread.
#pragma once

#include <vector>

#include "convert/language_family.h"
#include "convert/model_config.h"
#include "convert/sources.h"
#include "gguf/file.h"

namespace billow::convert {

struct AdapterBase {
  const LanguageFamily* family = nullptr;
  ModelConfig config;
};

// By config.json. Throws Error for a model that is none of the families.
AdapterBase base_of(const Sources& sources);

// By the keys of a GGUF file, which several families may write: the names of the adapter's tensors
// tell which it was. The configurations have the sizes that rules for matrices read. Throws Error
// (kUnsupported) for an architecture of none of them.
std::vector<AdapterBase> bases_of(const gguf::File& model);

}  // namespace billow::convert

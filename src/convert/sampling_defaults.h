// Converts generation_config.json: the default sampling of a model. Plain functions, thread-safe.
#pragma once

#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes general.sampling.*. If there is no such file, writes nothing. Throws Error (kInvalidInput)
// for a value of the wrong type.
void write_sampling_defaults(const Sources& sources, gguf::Writer& writer);

}  // namespace billow::convert

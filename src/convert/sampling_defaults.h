// How answers of a model are sampled unless a user says otherwise: generation_config.json. Plain
// functions; any thread.
#pragma once

#include "convert/sources.h"
#include "gguf/writer.h"

namespace billow::convert {

// Writes general.sampling.*; nothing where there is no such file. Throws Error (kInvalidInput) for
// a value of another type.
void write_sampling_defaults(const Sources& sources, gguf::Writer& writer);

}  // namespace billow::convert

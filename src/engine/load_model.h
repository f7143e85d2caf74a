// Loads models like arch/, with errors that also say where to read more.
#pragma once

#include <memory>

#include "arch/encoder.h"
#include "arch/model.h"

namespace billow::engine {

// Like arch::load_model() and arch::load_encoder(). Except for errors of memory, each Error ends
// with a hint at `billow inspect`, which lists what a file needs.
std::unique_ptr<arch::Model> load_model(const gguf::File& file, const arch::LoadOptions& options);
std::unique_ptr<arch::Encoder> load_encoder(const gguf::File& file,
                                            const arch::LoadOptions& options);

}  // namespace billow::engine

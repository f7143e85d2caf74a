// Loading models as arch/ does, with errors that also say where to read on.
#pragma once

#include <memory>

#include "arch/encoder.h"
#include "arch/model.h"

namespace billow::engine {

// As arch::load_model() and arch::load_encoder(). Their Errors, but those of memory, end with a
// hint at `billow inspect`, which lists all that a file needs.
std::unique_ptr<arch::Model> load_model(const gguf::File& file, const arch::LoadOptions& options);
std::unique_ptr<arch::Encoder> load_encoder(const gguf::File& file,
                                            const arch::LoadOptions& options);

}  // namespace billow::engine

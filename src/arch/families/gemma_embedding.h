// EmbeddingGemma. Its files name one of two architectures.
#pragma once

#include "arch/encoders/style.h"
#include "arch/metadata.h"

namespace billow::arch {

EncoderStyle gemma_embedding_style(const Metadata& meta);

}  // namespace billow::arch

// Language models that were trained on to make vectors, so that a token sees those behind it, too.
#pragma once

#include "arch/encoders/style.h"
#include "arch/metadata.h"

namespace billow::arch {

// RMS norms before each sub-layer, rotation of this kind, SwiGLU, biases where the file has them.
EncoderStyle bidirectional_style(const Metadata& meta, kernels::RopeKind rope);

}  // namespace billow::arch

// Language models that were trained further to make vectors, so that a token also sees later
// tokens.
#pragma once

#include "arch/encoders/style.h"
#include "arch/metadata.h"

namespace billow::arch {

// Returns a style with RMS norms before each sub-layer, rotation of this kind, SwiGLU, and optional
// biases.
EncoderStyle bidirectional_style(const Metadata& meta, kernels::RopeKind rope);

}  // namespace billow::arch

// Reading a model's rotary positions: the kind, the base, scalings and tensors of divisors.
#pragma once

#include <cstddef>

#include "arch/metadata.h"
#include "nn/rope.h"

namespace billow::arch {

// The base where a file gives none.
inline constexpr double kRopeBase = 10000.0;

// What rotates heads of head_len values. `trained_context` is the model's context_length. Throws
// Error naming the key or the tensor that makes no sense.
nn::RopeParams read_rope(const Metadata& meta, kernels::RopeKind kind, size_t head_len,
                         size_t trained_context);

}  // namespace billow::arch

// Reads a model's rotary positions: kind, base, scalings, and tensors of divisors.
#pragma once

#include <cstddef>

#include "arch/metadata.h"
#include "nn/rope.h"

namespace billow::arch {

// The base if a file has none.
inline constexpr double kRopeBase = 10000.0;

// Returns the rotation of heads of head_len values. `trained_context` is the model's
// context_length. Throws Error naming a key or tensor that is invalid.
nn::RopeParams read_rope(const Metadata& meta, kernels::RopeKind kind, size_t head_len,
                         size_t trained_context);

// Sets the axes of a rope (M-RoPE) from rope.dimension_sections: the number of pairs that rotate by
// time, row and column. `interleaved`: pairs of the three alternate as long as they last
// (Qwen3-VL); otherwise they follow each other. Without the key, tokens have one position. Throws
// Error if the sections are invalid.
void read_axes(const Metadata& meta, bool interleaved, nn::RopeParams& rope);

}  // namespace billow::arch

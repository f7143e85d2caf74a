// Stores keys and values into KV blocks, and computes causal attention over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// The KV of one layer: the places of its heads in blocks. In each block, head h has K at k_offset +
// h * head_bytes and V at v_offset + h * head_bytes, in the layout of kernels/kv_block.h.
struct KvLayer {
  kernels::KvTypes types;
  std::byte* base = nullptr;
  size_t block_bytes = 0;
  size_t k_offset = 0;
  size_t v_offset = 0;
  size_t head_bytes = 0;
  size_t n_heads = 0;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  size_t window = 0;  // positions that a query sees, including its own; 0: all
  size_t chunk = 0;   // a query sees positions from the last multiple of this on; 0: all
};

// Dropped positions of a sequence, from begin up to end; if these are equal, there is no gap.
struct Gap {
  size_t begin = 0;
  size_t end = 0;
  size_t n() const noexcept { return end - begin; }
};

// The rows of a batch. Row i belongs to position positions[i] of the sequence whose block ids are
// blocks[sequences[i]]. Adjacent rows of one sequence are in order of their positions, all of them
// after its gap.
struct KvRows {
  std::span<const uint32_t> positions;
  std::span<const uint32_t> sequences;
  std::span<const std::span<const uint32_t>> blocks;
  std::span<const Gap> gaps = {};  // [sequence]; empty: no sequence has a gap
  // [row]: the last position that the row sees, at least its own. It must be stored, or be stored
  // by a row of this batch. Adjacent rows of a sequence have rising values. Empty: rows see up to
  // their own position.
  std::span<const uint32_t> last = {};
};

// Stores each row's keys ([n_heads * k_len]) and values ([n_heads * v_len]).
void store_kv(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix k,
              tensor::Matrix v);

struct AttentionScale {
  float factor = 1.0f;            // multiplies the dot products
  float softcap = 0.0f;           // 0: none
  const float* sinks = nullptr;   // [n_q_heads] scores without a value, or null
  const float* slopes = nullptr;  // [n_q_heads] ALiBi slopes, or null
  // Tokens that are read may use BF16. For layers whose products round these tokens, too.
  bool reads_in_bf16 = false;
};

// [rows][n_q_heads * k_len]. n_q_heads is a multiple of the layer's heads; adjacent query heads
// share a KV head.
struct Queries {
  tensor::Matrix q;
  // The same queries, rotated as if gaps were closed, for the keys before a gap. Required if a row
  // has a gap and the layer has no window. Layers with windows or chunks see no keys before a gap.
  tensor::Matrix before_gap = {};
};

// out row = softmax(scale * q K^T) V for each query head; out is [rows][n_q_heads * v_len]. A row
// sees the stored positions of its sequence up to its own, or up to KvRows::last. The work is split
// by rows and KV heads. If that gives too few pieces, it is also split by spans of positions. A
// row's result does not depend on the split.
void attention(const Compute& compute, const KvLayer& layer, const KvRows& rows,
               const Queries& queries, AttentionScale scale, tensor::Matrix out);

}  // namespace billow::nn

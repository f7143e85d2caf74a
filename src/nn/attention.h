// Writing keys and values into KV blocks, and causal attention over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// The KV of one layer: where in the blocks its heads lie. Head h has K at k_offset + h *
// head_bytes, V at v_offset + h * head_bytes of each block, in the layout that kernels/kv_block.h
// gives.
struct KvLayer {
  kernels::KvType type = kernels::KvType::kInt16;
  std::byte* base = nullptr;
  size_t block_bytes = 0;
  size_t k_offset = 0;
  size_t v_offset = 0;
  size_t head_bytes = 0;
  size_t n_heads = 0;
  size_t k_len = 0;  // multiples of 16
  size_t v_len = 0;
  size_t window = 0;  // positions that a query sees, itself included; 0: all
  size_t chunk = 0;   // a query sees from the last multiple of this on; 0: no
};

// Positions of a sequence that nobody sees any more: begin up to end, none where these are equal.
struct Gap {
  size_t begin = 0;
  size_t end = 0;
  size_t n() const noexcept { return end - begin; }
};

// The rows of a batch: row i belongs to position positions[i] of the sequence whose block ids are
// blocks[sequences[i]]. Rows of one sequence that stand together are in order of their positions,
// all of them behind its gap.
struct KvRows {
  std::span<const uint32_t> positions;
  std::span<const uint32_t> sequences;
  std::span<const std::span<const uint32_t>> blocks;
  std::span<const Gap> gaps = {};  // [sequence]; empty: there are none
};

// Stores each row's keys ([n_heads * k_len]) and values ([n_heads * v_len]).
void store_kv(const Compute& compute, const KvLayer& layer, const KvRows& rows, tensor::Matrix k,
              tensor::Matrix v);

struct AttentionScale {
  float factor = 1.0f;            // of the dot products
  float softcap = 0.0f;           // 0: none
  const float* sinks = nullptr;   // [n_q_heads] scores without a value, or null
  const float* slopes = nullptr;  // [n_q_heads] of ALiBi, or null
};

// [rows][n_q_heads * k_len]; n_q_heads is a multiple of the layer's heads: neighbouring query heads
// share a KV head.
struct Queries {
  tensor::Matrix q;
  // The same, rotated as if gaps were closed: what the keys before a gap are multiplied with.
  // Needed where a row has a gap and the layer no window: through a window nothing before a gap is
  // seen.
  tensor::Matrix before_gap = {};
};

// out row = softmax(scale * q K^T) V for each query head; out is [rows][n_q_heads * v_len]. A row
// sees the positions of its sequence up to its own, which are stored before. The work is split by
// rows, KV heads and, where that leaves too little to share out, spans of positions; a row's result
// does not depend on how.
void attention(const Compute& compute, const KvLayer& layer, const KvRows& rows,
               const Queries& queries, AttentionScale scale, tensor::Matrix out);

}  // namespace billow::nn

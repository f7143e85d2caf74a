// Adapters (LoRA, Hu et al., arXiv 2106.09685): they add low-rank products to the products of a
// model's matrices, for the rows of a batch that have the adapter. Immutable; any thread may read.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>

#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace billow::nn {

// out += b (a x), for one matrix.
struct LowRank {
  tensor::Tensor a;              // [rank][columns of the matrix], packed
  const std::byte* b = nullptr;  // as kernels::LowRankArgs
  kernels::LowRankValues b_values = kernels::LowRankValues::kFloats;
  float b_scale = 1.0f;  // multiplies the values in b; a power of two

  size_t rank() const noexcept { return a.n_rows; }
};

// The low-rank products that one adapter adds to a model with these weights. Owns nothing.
class Adapter {
 public:
  virtual ~Adapter() = default;

  // Returns the pair for the matrix whose rows begin at `data` (Tensor::data); null: none.
  const LowRank* find(const std::byte* data) const noexcept {
    const auto found = products_.find(data);
    return found == products_.end() ? nullptr : &found->second;
  }
  // Returns the pair for rows that are read from the token embedding; null: none. Its `a` has a row
  // for each token, in the shape [n_vocab][rank], and is not packed.
  const LowRank* embedding() const noexcept { return embedding_.a ? &embedding_ : nullptr; }
  size_t max_rank() const noexcept { return max_rank_; }

 protected:
  std::unordered_map<const std::byte*, LowRank> products_;
  LowRank embedding_;
  size_t max_rank_ = 0;
};

// The adapter of each row of a pass; null: the row has none. Empty: no row has an adapter. A matrix
// with k times as many rows holds all rows of the pass k times, one copy after another.
using RowAdapters = std::span<const Adapter* const>;

// Returns the max rank of the rows' adapters; 0: no row has an adapter.
inline size_t max_rank(RowAdapters rows) noexcept {
  size_t rank = 0;
  for (const Adapter* adapter : rows)
    if (adapter != nullptr && adapter->max_rank() > rank) rank = adapter->max_rank();
  return rank;
}

inline const Adapter* adapter_of(RowAdapters rows, size_t row) noexcept {
  return rows[row % rows.size()];
}

// Returns the type of an adapter's first matrix, for a weight of this type with rows of n_cols
// values. The type is as exact as the product with the weight. For weights with codes, the type has
// 8-bit codes, so that both share the weight's inputs.
constexpr quant::Type adapter_type(quant::Type weight, size_t n_cols) noexcept {
  constexpr size_t kCodesOfScale = 32;
  if (weight == quant::Type::kF32) return quant::Type::kF32;
  const bool is_float = weight == quant::Type::kF16 || weight == quant::Type::kBF16;
  return is_float || n_cols % kCodesOfScale != 0 ? quant::Type::kBF16 : quant::Type::kQ8_0;
}
// Returns the type of an adapter's second matrix.
constexpr kernels::LowRankValues adapter_values(quant::Type weight, size_t n_cols) noexcept {
  const quant::Type a = adapter_type(weight, n_cols);
  if (a == quant::Type::kF32) return kernels::LowRankValues::kFloats;
  return a == quant::Type::kQ8_0 ? kernels::LowRankValues::kCodes : kernels::LowRankValues::kHalves;
}
// Returns the type of the first matrix for the token embedding, whose rows are looked up. The
// second matrix then has halves or floats.
constexpr quant::Type adapter_row_type(quant::Type table) noexcept {
  return table == quant::Type::kF32 ? quant::Type::kF32 : quant::Type::kBF16;
}

}  // namespace billow::nn

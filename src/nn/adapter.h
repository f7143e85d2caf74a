// Adapters (LoRA, Hu et al., arXiv 2106.09685): they add low-rank products to those of a model's
// matrices, for the rows of a batch that have the adapter. Immutable once made; any thread may
// read.
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
  float b_scale = 1.0f;  // of what b holds: a power of two

  size_t rank() const noexcept { return a.n_rows; }
};

// What a model with these weights is added to by one adapter. Owns nothing.
class Adapter {
 public:
  virtual ~Adapter() = default;

  // For products with the matrix whose rows begin at `data` (Tensor::data); null: nothing is added.
  const LowRank* find(const std::byte* data) const noexcept {
    const auto found = products_.find(data);
    return found == products_.end() ? nullptr : &found->second;
  }
  // For rows that are looked up in the token embedding: `a` has the row of each token, in the form
  // of [n_vocab][rank], not packed. Null: nothing is added.
  const LowRank* embedding() const noexcept { return embedding_.a ? &embedding_ : nullptr; }
  size_t max_rank() const noexcept { return max_rank_; }

 protected:
  std::unordered_map<const std::byte*, LowRank> products_;
  LowRank embedding_;
  size_t max_rank_ = 0;
};

// The adapter of each row of a pass; null: the row has none. Empty: no row has one. Matrices with
// several times as many rows hold all rows of the pass several times, one time after the other.
using RowAdapters = std::span<const Adapter* const>;

// The greatest rank of them; 0: no row has one.
inline size_t max_rank(RowAdapters rows) noexcept {
  size_t rank = 0;
  for (const Adapter* adapter : rows)
    if (adapter != nullptr && adapter->max_rank() > rank) rank = adapter->max_rank();
  return rank;
}

inline const Adapter* adapter_of(RowAdapters rows, size_t row) noexcept {
  return rows[row % rows.size()];
}

// What the first matrix of an adapter is kept as, beside a weight of this type with rows of n_cols
// values: as exact as the weight is multiplied. Beside weights with codes it takes 8-bit codes, and
// shares the weight's inputs.
constexpr quant::Type adapter_type(quant::Type weight, size_t n_cols) noexcept {
  constexpr size_t kCodesOfScale = 32;
  if (weight == quant::Type::kF32) return quant::Type::kF32;
  const bool is_float = weight == quant::Type::kF16 || weight == quant::Type::kBF16;
  return is_float || n_cols % kCodesOfScale != 0 ? quant::Type::kBF16 : quant::Type::kQ8_0;
}
// What the second matrix is kept as, likewise.
constexpr kernels::LowRankValues adapter_values(quant::Type weight, size_t n_cols) noexcept {
  const quant::Type a = adapter_type(weight, n_cols);
  if (a == quant::Type::kF32) return kernels::LowRankValues::kFloats;
  return a == quant::Type::kQ8_0 ? kernels::LowRankValues::kCodes : kernels::LowRankValues::kHalves;
}
// The first one of the token embedding's adapter, whose rows are looked up; the second is of halves
// then, or of floats.
constexpr quant::Type adapter_row_type(quant::Type table) noexcept {
  return table == quant::Type::kF32 ? quant::Type::kF32 : quant::Type::kBF16;
}

}  // namespace billow::nn

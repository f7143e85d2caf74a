// The resources of every operation of the forward pass: kernels, threads and scratch memory. Owns
// nothing. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/thread_team.h"
#include "kernels/kernel_table.h"
#include "nn/adapter.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace billow::nn {

// Receives the inputs of products, for measurements of what weights are multiplied with.
class ProductListener {
 public:
  virtual ~ProductListener() = default;
  // Runs before each product of `weight` with `n` rows of weight.n_cols values. The rows of one
  // product come in order. Runs on the thread that runs the pass.
  virtual void multiplied(const tensor::Tensor& weight, const float* const* rows, size_t n) = 0;
};

// A sizing pass computes nothing. Each operation takes the max scratch memory for matrices of the
// given shapes, and returns. So the same code uses memory and counts memory.
struct Sizing {
  size_t n_positions = 0;  // max positions of a sequence
  size_t n_threads = 1;
  size_t adapter_rank = 0;  // max rank of the rows' adapters; 0: no row has an adapter
};

using RowKinds = std::span<const kernels::RowKind>;

struct Compute {
  const kernels::KernelTable& kernels;
  cpu::ThreadTeam& team;  // unused in a sizing pass
  tensor::Arena& arena;
  const Sizing* sizing = nullptr;  // null: the pass computes
  ProductListener* listener = nullptr;
  // For the rows of the operations' matrices. A matrix with n times as many rows has them n times.
  RowAdapters adapters{};
  RowKinds kinds{};  // empty: all rows are of RowKind::kWritten

  size_t n_threads() const noexcept {
    return sizing != nullptr ? sizing->n_threads : static_cast<size_t>(team.size());
  }
  // Returns the max rank of the rows' adapters; 0: no row has an adapter.
  size_t adapter_rank() const noexcept {
    return sizing != nullptr ? sizing->adapter_rank : max_rank(adapters);
  }
  kernels::RowKind kind_of(size_t row) const noexcept {
    return kinds.empty() ? kernels::RowKind::kWritten : kinds[row % kinds.size()];
  }
};

// A Compute for matrices whose row i is row rows[i] of the pass. Must outlive the result of
// compute().
class ComputeOfRows {
 public:
  ComputeOfRows(const Compute& compute, std::span<const uint32_t> rows) : compute_(compute) {
    take(compute.adapters, rows, adapters_);
    take(compute.kinds, rows, kinds_);
    compute_.adapters = adapters_;
    compute_.kinds = kinds_;
  }
  ComputeOfRows(const ComputeOfRows&) = delete;
  ComputeOfRows& operator=(const ComputeOfRows&) = delete;
  const Compute& compute() const noexcept { return compute_; }

 private:
  template <class T>
  static void take(std::span<const T> all, std::span<const uint32_t> rows, std::vector<T>& out) {
    if (all.empty()) return;
    out.reserve(rows.size());
    for (const uint32_t row : rows) out.push_back(all[row]);
  }

  std::vector<const Adapter*> adapters_;
  std::vector<kernels::RowKind> kinds_;
  Compute compute_;
};

}  // namespace billow::nn

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

struct Compute {
  const kernels::KernelTable& kernels;
  cpu::ThreadTeam& team;  // unused in a sizing pass
  tensor::Arena& arena;
  const Sizing* sizing = nullptr;  // null: the pass computes
  ProductListener* listener = nullptr;
  RowAdapters adapters{};  // for the rows of the operations' matrices

  size_t n_threads() const noexcept {
    return sizing != nullptr ? sizing->n_threads : static_cast<size_t>(team.size());
  }
  // Returns the max rank of the rows' adapters; 0: no row has an adapter.
  size_t adapter_rank() const noexcept {
    return sizing != nullptr ? sizing->adapter_rank : max_rank(adapters);
  }
};

// A Compute for matrices whose row i is row rows[i] of the pass. Must outlive the result of
// compute().
class ComputeOfRows {
 public:
  ComputeOfRows(const Compute& compute, std::span<const uint32_t> rows) : compute_(compute) {
    if (compute.adapters.empty()) return;
    adapters_.reserve(rows.size());
    for (const uint32_t row : rows) adapters_.push_back(compute.adapters[row]);
    compute_.adapters = adapters_;
  }
  ComputeOfRows(const ComputeOfRows&) = delete;
  ComputeOfRows& operator=(const ComputeOfRows&) = delete;
  const Compute& compute() const noexcept { return compute_; }

 private:
  std::vector<const Adapter*> adapters_;
  Compute compute_;
};

}  // namespace billow::nn

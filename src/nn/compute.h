// What every operation of the forward pass runs on: kernels, threads and scratch. Owns nothing. One
// thread at a time.
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

// Gets the inputs of products: for those who measure what weights are multiplied with.
class ProductListener {
 public:
  virtual ~ProductListener() = default;
  // A product of `weight` is about to be computed, with `n` rows of weight.n_cols values. Rows of
  // one product come in order. On the thread that runs the pass.
  virtual void multiplied(const tensor::Tensor& weight, const float* const* rows, size_t n) = 0;
};

// A sizing pass computes nothing. Each operation takes the scratch that it takes at most for
// matrices of the given shapes, and returns. So the code that uses memory is the code that counts
// memory.
struct Sizing {
  size_t n_positions = 0;  // that a sequence reaches
  size_t n_threads = 1;
  size_t adapter_rank = 0;  // the greatest of adapters that rows have; 0: no row has one
};

struct Compute {
  const kernels::KernelTable& kernels;
  cpu::ThreadTeam& team;  // not used by a sizing pass
  tensor::Arena& arena;
  const Sizing* sizing = nullptr;  // null: the pass computes
  ProductListener* listener = nullptr;
  RowAdapters adapters{};  // of the rows of the matrices that operations get

  size_t n_threads() const noexcept {
    return sizing != nullptr ? sizing->n_threads : static_cast<size_t>(team.size());
  }
  // The greatest rank of the adapters that rows have; 0: no row has one.
  size_t adapter_rank() const noexcept {
    return sizing != nullptr ? sizing->adapter_rank : max_rank(adapters);
  }
};

// The same for matrices whose row i is row rows[i] of the pass. Lives as long as its compute().
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

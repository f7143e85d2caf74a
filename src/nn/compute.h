// What every operation of the forward pass runs on: kernels, threads and scratch. Owns nothing. One
// thread at a time.
#pragma once

#include <cstddef>

#include "cpu/thread_team.h"
#include "kernels/kernel_table.h"
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
};

struct Compute {
  const kernels::KernelTable& kernels;
  cpu::ThreadTeam& team;  // not used by a sizing pass
  tensor::Arena& arena;
  const Sizing* sizing = nullptr;  // null: the pass computes
  ProductListener* listener = nullptr;

  size_t n_threads() const noexcept {
    return sizing != nullptr ? sizing->n_threads : static_cast<size_t>(team.size());
  }
};

}  // namespace billow::nn

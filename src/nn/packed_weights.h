// Owns the packed form of a model's weights (quant/packing.h) and makes it, in parallel, when a
// matrix is loaded. One thread at a time; the packed bytes may be read by any.
#pragma once

#include <cstddef>

#include "cpu/thread_team.h"
#include "kernels/kernel_table.h"
#include "tensor/tensor.h"

namespace billow::nn {

class PackedWeights {
 public:
  // Address space for `max_bytes` of packed weights (bytes_of() of all of them, each rounded up to
  // 64). Throws Error when it cannot be had. `kernels` and `team` must outlive the calls of pack(),
  // not the object.
  PackedWeights(const kernels::KernelTable& kernels, cpu::ThreadTeam& team, size_t max_bytes);
  ~PackedWeights();
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // What the packed form of n_rows x n_cols takes; 0 for formats that are not packed.
  static size_t bytes_of(quant::Type type, size_t n_cols, size_t n_rows);

  // Sets weight.packed, where its format has a packed form.
  void pack(tensor::Tensor& weight);

  size_t n_bytes() const noexcept { return used_; }

 private:
  const kernels::KernelTable* kernels_;
  cpu::ThreadTeam* team_;
  std::byte* base_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
};

}  // namespace billow::nn

// How much scratch memory forward passes take: known before the first one, from shapes alone, so
// that it can be granted before it is used. Any thread.
#pragma once

#include <cstddef>
#include <span>

#include "arch/model.h"
#include "kernels/kernel_table.h"
#include "quant/type.h"
#include "tensor/arena.h"

namespace billow::arch {

// What no pass is larger than.
struct PassLimits {
  size_t n_rows = 0;         // of a batch
  size_t n_logit_rows = 0;   // rows of it whose logits are wanted
  size_t n_hidden_rows = 0;  // rows of it whose hidden states are wanted
  size_t n_positions = 0;    // that a sequence reaches
  size_t n_threads = 1;
  // Encoders: weights are kept packed; otherwise threads pack them as they go.
  bool packed = true;
};

// What the arena hands out for n floats, in bytes.
constexpr size_t float_bytes(size_t n) {
  constexpr size_t kUnit = tensor::Arena::kAlignment;
  return (n * sizeof(float) + kUnit - 1) / kUnit * kUnit;
}

// What nn::linear takes for n rows of k values, in each form that weights of these formats want;
// and, where they are not kept packed, what each thread packs a unit of two strips with.
size_t linear_scratch_bytes(const kernels::KernelTable& kernels, const PassLimits& limits,
                            std::span<const quant::TypeRow* const> types, size_t n, size_t k);

// The most bytes that the arena holds after any number of passes of the model, its logits and
// hidden states included: what a sizing pass counts.
size_t most_scratch_bytes(const Model& model, const kernels::KernelTable& kernels,
                          const PassLimits& limits);

}  // namespace billow::arch

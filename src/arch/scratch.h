// How much scratch memory forward passes take: known before the first one, from shapes alone, so
// that it can be granted before it is used. Any thread.
#pragma once

#include <cstddef>

#include "arch/model.h"
#include "kernels/kernel_table.h"

namespace billow::arch {

// What no pass is larger than.
struct PassLimits {
  size_t n_rows = 0;         // of a batch
  size_t n_logit_rows = 0;   // rows of it whose logits are wanted
  size_t n_hidden_rows = 0;  // rows of it whose hidden states are wanted
  size_t n_positions = 0;    // that a sequence reaches
  size_t n_threads = 1;
  size_t adapter_rank = 0;  // of adapters that rows have; 0: no row has one
};

// The most bytes that the arena holds after any number of passes of the model, its logits and
// hidden states included: what a sizing pass counts.
size_t max_scratch_bytes(const Model& model, const kernels::KernelTable& kernels,
                         const PassLimits& limits);

}  // namespace billow::arch

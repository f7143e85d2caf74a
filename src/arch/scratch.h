// The scratch memory of forward passes, computed from shapes alone. It is known before the first
// pass, so that memory can be granted before it is used. Any thread.
#pragma once

#include <cstddef>

#include "arch/model.h"
#include "kernels/kernel_table.h"

namespace billow::arch {

// The upper limits of a pass.
struct PassLimits {
  size_t n_rows = 0;         // rows of a batch
  size_t n_logit_rows = 0;   // rows that need logits
  size_t n_hidden_rows = 0;  // rows that need hidden states
  size_t n_positions = 0;    // max positions of a sequence
  size_t n_threads = 1;
  size_t adapter_rank = 0;  // max rank of the rows' adapters; 0: no row has an adapter
};

// Returns the max bytes that the arena holds after any number of passes of the model, including
// logits and hidden states. A sizing pass counts them.
size_t max_scratch_bytes(const Model& model, const kernels::KernelTable& kernels,
                         const PassLimits& limits);

}  // namespace billow::arch

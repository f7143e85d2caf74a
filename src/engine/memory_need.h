// Calculates the memory need of a model that generates text. The engine grants memory by this need,
// and `runner --describe` shows it. Pure functions of a file's header; thread-safe.
#pragma once

#include <cstddef>

#include "arch/model.h"
#include "context/memory_need.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/layout.h"
#include "nn/packed_weights.h"

namespace billow::engine {

// How the model runs.
struct StepSizes {
  size_t n_batch = 1;      // rows of a step
  size_t n_sequences = 1;  // max parallel sequences
  size_t n_draft = 0;      // max drafted tokens of a step
  size_t n_threads = 1;
  size_t max_context = 0;   // positions of a sequence
  size_t adapter_rank = 0;  // max rank of the adapters in use; 0: none
};

// Returns the bytes of the file, with the weights that `packed` lists in packed form.
uint64_t weight_bytes(const gguf::File& file, const nn::PackedWeights& packed);

// Returns the need. Includes hidden states of all rows of a step, because any model can be asked
// for vectors.
context::MemoryNeed memory_need(uint64_t n_weight_bytes, const arch::Model& model,
                                const kernels::KernelTable& kernels, const kv::Layout& layout,
                                const StepSizes& sizes);

}  // namespace billow::engine

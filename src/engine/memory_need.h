// The memory need of a model that writes, as its engine grants by and `runner --describe` shows.
// Pure functions of a file's header; any thread.
#pragma once

#include <cstddef>

#include "arch/model.h"
#include "context/memory_need.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/layout.h"
#include "nn/packed_weights.h"

namespace billow::engine {

// How the model is run.
struct StepSizes {
  size_t n_batch = 1;      // rows of a step
  size_t n_sequences = 1;  // that may run at once
  size_t n_draft = 0;      // drafted tokens of a step, at most
  size_t n_threads = 1;
  size_t max_context = 0;   // positions of a sequence
  size_t adapter_rank = 0;  // the greatest of adapters in use; 0: none is
};

// Of the file's bytes and what is listed in `packed`.
uint64_t weight_bytes(const gguf::File& file, const nn::PackedWeights& packed);

// Steps may read hidden states of all their rows: any model can be asked for vectors.
context::MemoryNeed memory_need(const gguf::File& file, const arch::Model& model,
                                const kernels::KernelTable& kernels, const kv::Layout& layout,
                                const nn::PackedWeights& packed, const StepSizes& sizes);

}  // namespace billow::engine

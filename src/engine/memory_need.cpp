#include "engine/memory_need.h"

#include <algorithm>

#include "arch/scratch.h"

namespace billow::engine {

uint64_t weight_bytes(const gguf::File& file, const nn::PackedWeights& packed) {
  return packed.n_bytes() + file.n_bytes() - packed.n_source_bytes();
}

context::MemoryNeed memory_need(uint64_t n_weight_bytes, const arch::Model& model,
                                const kernels::KernelTable& kernels, const kv::Layout& layout,
                                const StepSizes& sizes) {
  context::MemoryNeed need = {.weight_bytes = n_weight_bytes,
                              .kv_groups = layout.groups,
                              .block_positions = kv::kBlockPositions,
                              .n_batch = sizes.n_batch};
  const size_t n_logit_rows = sizes.n_sequences + sizes.n_draft;
  for (const size_t n_positions : context::scratch_positions(sizes.max_context)) {
    const arch::PassLimits limits = {.n_rows = sizes.n_batch,
                                     .n_logit_rows = std::min(sizes.n_batch, n_logit_rows),
                                     .n_hidden_rows = sizes.n_batch,
                                     .n_positions = n_positions,
                                     .n_threads = sizes.n_threads,
                                     .adapter_rank = sizes.adapter_rank};
    need.scratch.push_back({n_positions, arch::max_scratch_bytes(model, kernels, limits)});
  }
  return need;
}

}  // namespace billow::engine

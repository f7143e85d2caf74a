#include "arch/scratch.h"

#include <vector>

#include "nn/compute.h"

namespace billow::arch {

size_t max_scratch_bytes(const Model& model, const kernels::KernelTable& kernels,
                         const PassLimits& limits) {
  tensor::Arena arena{tensor::Arena::Counting{}};
  cpu::ThreadTeam nobody(1);
  const nn::Sizing sizing = {.n_positions = limits.n_positions,
                             .n_threads = limits.n_threads,
                             .adapter_rank = limits.adapter_rank};
  const std::vector<int32_t> tokens(limits.n_rows);
  const std::vector<uint32_t> rows(limits.n_rows + limits.n_logit_rows + limits.n_hidden_rows);
  const std::span<const uint32_t> any = rows;
  const Outputs out = {arena.matrix(limits.n_logit_rows, model.info().n_vocab),
                       arena.matrix(limits.n_hidden_rows, model.info().n_embd)};
  model.forward({kernels, nobody, arena, &sizing}, nullptr,
                {.tokens = tokens,
                 .positions = any.first(limits.n_rows),
                 .sequences = any.first(limits.n_rows),
                 .tables = {},
                 .logit_rows = any.first(limits.n_logit_rows),
                 .hidden_rows = any.first(limits.n_hidden_rows)},
                out);
  return arena.n_bytes();
}

}  // namespace billow::arch

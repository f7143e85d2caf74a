#include "arch/scratch.h"

#include <algorithm>
#include <vector>

#include "nn/compute.h"
#include "quant/unpack.h"

namespace billow::arch {
namespace {

using kernels::InputForm;

constexpr size_t piece(size_t n_bytes) {
  constexpr size_t kUnit = tensor::Arena::kAlignment;
  return (n_bytes + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

size_t linear_scratch_bytes(const kernels::KernelTable& kernels, const PassLimits& limits,
                            std::span<const quant::TypeRow* const> types, size_t n, size_t k) {
  std::vector<const InputForm*> forms;
  size_t largest_strip = 0;
  for (const quant::TypeRow* type : types) {
    const InputForm* form = kernels.of(type->type).input;
    if (std::ranges::count(forms, form) == 0) forms.push_back(form);
    largest_strip = std::max(largest_strip, type->packing.strip_bytes(k));
  }
  size_t sum = 0;
  for (const InputForm* form : forms) sum += piece(form->bytes(n, k));
  if (limits.packed) return sum;
  const size_t scales = float_bytes(quant::kStripRows * kernels::padded(k) / quant::kScaleGroup);
  return sum + limits.n_threads * (piece(2 * largest_strip) + 2 * scales);
}

size_t most_scratch_bytes(const Model& model, const kernels::KernelTable& kernels,
                          const PassLimits& limits) {
  tensor::Arena arena{tensor::Arena::Counting{}};
  cpu::ThreadTeam nobody(1);
  const nn::Sizing sizing = {.n_positions = limits.n_positions, .n_threads = limits.n_threads};
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

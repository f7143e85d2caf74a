#include "arch/blocks/output.h"

#include "nn/linear.h"
#include "nn/refine.h"
#include "nn/rows.h"

namespace billow::arch {

void OutputWeights::load(const WeightLoader& load, const Hparams& h) {
  load.plain_matrix("token_embd.weight", embedding, h.n_embd, h.n_vocab);
  load.matrix("output.weight", output, h.n_embd, h.n_vocab, Presence::kOptional);
  if (!output) output = embedding;
  load.pack(output);
  load.vector("output_norm.weight", norm, h.n_embd);
}

void output_block(const nn::Compute& compute, const OutputWeights& weights, const Hparams& h,
                  const Batch& batch, tensor::Matrix x, const Outputs& out) {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix normed = compute.arena.matrix(batch.logit_rows.size(), h.n_embd);
  const auto norm = [&](std::span<const uint32_t> rows, tensor::Matrix to) {
    for (size_t i = 0; i < rows.size(); ++i) {
      compute.kernels.rms_norm(x.row(rows[i]), weights.norm, h.n_embd, h.norm_epsilon, to.row(i));
    }
  };
  norm(batch.hidden_rows, out.hidden);
  norm(batch.logit_rows, normed);
  nn::linear(compute, normed, {{weights.output, nullptr, out.logits}});
  // Nothing after the logits evens out what rounding did to them; and only the greatest count: what
  // lies 5 below the greatest has 1/150 of its probability.
  constexpr float kReach = 5.0f;
  nn::refine_greatest(compute, normed, weights.output, kReach, out.logits);
}

}  // namespace billow::arch

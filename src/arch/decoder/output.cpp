#include "arch/decoder/output.h"

#include <cmath>
#include <string>

#include "nn/linear.h"
#include "nn/refine.h"
#include "nn/rows.h"

namespace billow::arch {

void OutputWeights::load(const WeightLoader& load, const DecoderStyle& style, const Norms& norms) {
  load.table("token_embd.weight", embedding, style.n_embd, style.n_vocab);
  load.matrix("output.weight", output, style.n_embd, style.n_vocab, Presence::kOptional);
  if (!output) output = embedding;
  load.pack(output);
  load.vector("output.bias", bias, style.n_vocab, Presence::kOptional);
  norm = norms.load(load, std::string(style.output_norm), style.n_embd);
}

void OutputWeights::load_head(const WeightLoader& load, const DecoderStyle& style,
                              const Norms& norms, const std::string& prefix,
                              const OutputWeights& of_model) {
  *this = of_model;
  const std::string own_embedding = prefix + "embed_tokens.weight";
  if (load.has(own_embedding)) load.table(own_embedding, embedding, style.n_embd, style.n_vocab);
  tensor::Tensor own_output;
  load.matrix(prefix + "shared_head_head.weight", own_output, style.n_embd, style.n_vocab,
              Presence::kOptional);
  if (own_output) output = own_output;
  const std::string own_norm = prefix + "shared_head_norm";
  if (load.has(own_norm + ".weight")) norm = norms.load(load, own_norm, style.n_embd);
}

void output_block(const nn::Compute& compute, const OutputWeights& weights,
                  const DecoderStyle& style, const Batch& batch, tensor::Matrix x,
                  const Outputs& out) {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix normed = compute.arena.matrix(batch.logit_rows.size(), style.n_embd);
  const auto norm = [&](std::span<const uint32_t> rows, tensor::Matrix to) {
    if (compute.sizing != nullptr) return;
    for (size_t i = 0; i < rows.size(); ++i)
      apply_to_row(weights.norm, compute.kernels, x.row(rows[i]), style.n_embd, to.row(i));
  };
  norm(batch.hidden_rows, out.hidden);
  norm(batch.logit_rows, normed);
  const nn::ComputeOfRows of_rows(compute, batch.logit_rows);
  nn::Compute of_logits = of_rows.compute();
  of_logits.kinds = {};  // few rows, and the most exact products
  nn::linear(of_logits, normed, {{weights.output, weights.bias, out.logits}});
  // No later step evens out the logits' rounding errors, and only the largest logits matter. If the
  // scaled logit of a token is 5 below the largest, its probability is 1/150 of the largest one.
  constexpr float kReach = 5.0f;
  const float reach = kReach / std::abs(style.logit_scale);
  nn::refine_max(compute, normed, weights.output, reach, out.logits);
  if (style.logit_scale != 1.0f) nn::scale(compute, out.logits, style.logit_scale);
  if (style.final_softcap > 0.0f) nn::softcap(compute, out.logits, style.final_softcap);
}

}  // namespace billow::arch

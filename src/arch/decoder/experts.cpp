#include "arch/decoder/experts.h"

#include <algorithm>
#include <cmath>

#include "nn/activation.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

void scale_row(float* row, size_t n, float factor) {
  std::for_each_n(row, n, [factor](float& value) { value *= factor; });
}

}  // namespace

Experts::Experts(const ExpertsStyle& style, const WeightLoader& load, const std::string& prefix,
                 size_t n_embd)
    : style_(style) {
  const size_t n = style.n_experts;
  load.matrix(prefix + "ffn_gate_inp.weight", router_, n_embd, n);
  load.vector(prefix + "ffn_gate_inp.bias", router_bias_, n, Presence::kOptional);
  load.vector(prefix + "exp_probs_b.bias", selection_bias_, n, Presence::kOptional);
  width_ = style.n_latent == 0 ? n_embd : style.n_latent;
  if (style.n_latent != 0) {
    load.matrix(prefix + "ffn_latent_down.weight", latent_down_, n_embd, width_);
    load.matrix(prefix + "ffn_latent_up.weight", latent_up_, width_, n_embd);
  }
  std::vector<tensor::Tensor> joint;  // the rows of each expert's gate, then the rows of its up
  if (style.gated) {
    load.plain_matrices(prefix + "ffn_gate_up_exps.weight", joint, width_, 2 * style.n_ff, n,
                        Presence::kOptional);
  }
  for (const tensor::Tensor& both : joint) {
    gate_.push_back(rows_of(both, 0, style.n_ff));
    up_.push_back(rows_of(both, style.n_ff, style.n_ff));
    load.pack(gate_.back(), true);
    load.pack(up_.back(), true);
  }
  if (joint.empty()) {
    if (style.gated) load.matrices(prefix + "ffn_gate_exps.weight", gate_, width_, style.n_ff, n);
    load.matrices(prefix + "ffn_up_exps.weight", up_, width_, style.n_ff, n);
  }
  load.matrices(prefix + "ffn_down_exps.weight", down_, style.n_ff, width_, n);
  load.vector(prefix + "ffn_gate_exps.bias", gate_bias_, n * style.n_ff, Presence::kOptional);
  load.vector(prefix + "ffn_up_exps.bias", up_bias_, n * style.n_ff, Presence::kOptional);
  load.vector(prefix + "ffn_down_exps.bias", down_bias_, n * width_, Presence::kOptional);
  if (style.n_ff_shared == 0) return;
  shared_.load(load, prefix, "_shexp", n_embd, style.n_ff_shared, style.gated);
  if (style.shared_gate) load.matrix(prefix + "ffn_gate_inp_shexp.weight", shared_gate_, n_embd, 1);
}

Experts::Slots Experts::route(const nn::Compute& compute, tensor::Matrix routed) const {
  const size_t n = routed.n_rows;
  const size_t n_used = style_.n_used;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix logits = compute.arena.matrix(n, style_.n_experts);
  const tensor::Matrix work = compute.arena.matrix(n, routing_work(style_));
  nn::linear(compute, routed, {{router_, router_bias_, logits}});
  Slots slots = {.choices = std::vector<Choice>(n * n_used),
                 .ends = std::vector<size_t>(style_.n_experts),
                 .slots = std::vector<uint32_t>(n * n_used),
                 .rows = std::vector<uint32_t>(n * n_used),
                 .weights = std::vector<float>(n * n_used)};
  if (compute.sizing != nullptr) return slots;
  nn::for_rows(compute, n, [&](size_t row) {
    choose_experts(style_, {logits.row(row), style_.n_experts}, selection_bias_,
                   {work.row(row), work.n_cols},
                   std::span(slots.choices).subspan(row * n_used, n_used));
  });
  std::vector<size_t> next(style_.n_experts);
  for (const Choice& choice : slots.choices) ++slots.ends[choice.expert];
  for (size_t expert = 1; expert < style_.n_experts; ++expert) {
    next[expert] = slots.ends[expert - 1];
    slots.ends[expert] += slots.ends[expert - 1];
  }
  for (size_t i = 0; i < slots.choices.size(); ++i) {
    const size_t slot = next[slots.choices[i].expert]++;
    slots.slots[i] = static_cast<uint32_t>(slot);
    slots.rows[slot] = static_cast<uint32_t>(i / n_used);
    slots.weights[slot] = slots.choices[i].weight;
  }
  return slots;
}

// inner = activation(gate x) * (up x), or activation(up x), for each slot's expert. Slot s reads
// row rows[s] of x, or row s if `rows` is empty.
void Experts::multiply(const nn::Compute& compute, const Slots& slots, tensor::Matrix x,
                       std::span<const uint32_t> rows, tensor::Matrix inner,
                       tensor::Matrix up) const {
  std::vector<nn::RowsProduct> products;
  for (size_t e = 0; e < style_.n_experts; ++e) {
    size_t begin = e == 0 ? 0 : slots.ends[e - 1];
    size_t end = slots.ends[e];
    if (compute.sizing != nullptr) {
      begin = 0;
      end = up.n_rows;
    }
    if (begin == end) continue;
    const auto bias = [&](const float* biases) {
      return biases == nullptr ? nullptr : biases + e * style_.n_ff;
    };
    if (style_.gated) products.push_back({begin, end, gate_[e], bias(gate_bias_), inner});
    products.push_back({begin, end, up_[e], bias(up_bias_), up});
  }
  nn::linear_of_rows(compute, x, rows, products);
  if (style_.gated)
    nn::activate_gated(compute, style_.activation, inner, up);
  else
    nn::activate(compute, style_.activation, {}, up);
}

// out row = the sum of its slots' results, in order of preference.
void Experts::add_up(const nn::Compute& compute, const Slots& slots, tensor::Matrix results,
                     tensor::Matrix out) const {
  const size_t n_used = style_.n_used;
  nn::for_rows(compute, out.n_rows, [&](size_t row) {
    float* const sum = out.row(row);
    for (size_t i = row * n_used; i < (row + 1) * n_used; ++i) {
      const Choice& choice = slots.choices[i];
      const float* const result = results.row(slots.slots[i]);
      const float weight = style_.weighs_input ? 1.0f : choice.weight;
      if (i == row * n_used)
        for (size_t k = 0; k < out.n_cols; ++k) sum[k] = weight * result[k];
      else
        for (size_t k = 0; k < out.n_cols; ++k) sum[k] += weight * result[k];
    }
  });
}

void Experts::add_shared(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix shared = compute.arena.matrix(x.n_rows, x.n_cols);
  const tensor::Matrix gate = compute.arena.matrix(x.n_rows, 1);
  if (shared_gate_) nn::linear(compute, x, {{shared_gate_, nullptr, gate}});
  feed_forward_block(
      compute, shared_,
      {.n_ff = style_.n_ff_shared, .gated = style_.gated, .activation = style_.activation}, x,
      shared);
  if (shared_gate_ && compute.sizing == nullptr) {
    for (size_t row = 0; row < x.n_rows; ++row)
      scale_row(shared.row(row), x.n_cols, nn::sigmoid(*gate.row(row)));
  }
  nn::add(compute, out, shared);
}

void Experts::forward(const nn::Compute& compute, tensor::Matrix routed, tensor::Matrix x,
                      tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const Slots slots = route(compute, routed);
  const size_t n_slots = x.n_rows * style_.n_used;
  tensor::Matrix read = x;
  if (latent_down_) {
    read = compute.arena.matrix(x.n_rows, width_);
    nn::linear(compute, x, {{latent_down_, nullptr, read}});
  }
  const tensor::Matrix results = compute.arena.matrix(n_slots, width_);
  const tensor::Matrix sum = compute.arena.matrix(x.n_rows, width_);
  std::span<const uint32_t> rows = slots.rows;
  if (style_.weighs_input) {  // then each slot has a separate row, at the place of its result
    nn::for_rows(compute, n_slots, [&](size_t slot) {
      std::copy_n(read.row(slots.rows[slot]), width_, results.row(slot));
      scale_row(results.row(slot), width_, slots.weights[slot]);
    });
    read = results;
    rows = {};
  }
  {
    const nn::ComputeOfRows of_slots(compute, slots.rows);
    const tensor::ArenaScope of_experts(compute.arena);
    const tensor::Matrix up = compute.arena.matrix(n_slots, style_.n_ff);
    const tensor::Matrix inner = style_.gated ? compute.arena.matrix(n_slots, style_.n_ff) : up;
    multiply(rows.empty() ? of_slots.compute() : compute, slots, read, rows, inner, up);
    std::vector<nn::RowsProduct> products;
    for (size_t e = 0; e < style_.n_experts; ++e) {
      const size_t begin = compute.sizing != nullptr || e == 0 ? 0 : slots.ends[e - 1];
      const size_t end = compute.sizing != nullptr ? n_slots : slots.ends[e];
      if (begin == end) continue;
      const float* bias = down_bias_ == nullptr ? nullptr : down_bias_ + e * width_;
      products.push_back({begin, end, down_[e], bias, results});
    }
    nn::linear_of_rows(of_slots.compute(), inner, {}, products);
  }
  add_up(compute, slots, results, sum);
  tensor::Matrix whole = sum;
  if (latent_up_) {
    whole = compute.arena.matrix(x.n_rows, x.n_cols);
    nn::linear(compute, sum, {{latent_up_, nullptr, whole}});
  }
  if (style_.n_ff_shared != 0) add_shared(compute, x, whole);
  if (compute.sizing == nullptr) std::copy_n(whole.data, whole.n_rows * whole.n_cols, out.data);
}

}  // namespace billow::arch

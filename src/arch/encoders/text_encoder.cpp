#include "arch/encoders/text_encoder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "arch/alibi.h"
#include "arch/encoders/text_parts.h"
#include "base/check.h"
#include "base/error.h"
#include "nn/low_rank.h"
#include "nn/outliers.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

[[noreturn]] void refuse_missing(const gguf::File& file, const std::string& name) {
  throw Error(ErrorCode::kInvalidInput,
              file.path() + ": tensor " + name +
                  " is missing; the file is incomplete or of another architecture");
}

// Returns the bytes of all layers' matrices.
size_t layer_bytes(const gguf::File& file) {
  size_t sum = 0;
  for (const gguf::TensorInfo& tensor : file.tensors())
    if (tensor.name.starts_with("blk.") && tensor.n_dims > 1) sum += tensor.data.size();
  return sum;
}

}  // namespace

TextEncoder::TextEncoder(EncoderStyle style, const gguf::File& file, const LoadOptions& options)
    : style_(std::move(style)),
      norms_(style_.norm, style_.norm_epsilon,
             std::max(style_.n_embd, style_.n_heads * style_.head_len)) {
  for (const nn::RopeParams& params : style_.ropes) ropes_.emplace_back(params);
  if (style_.alibi > 0.0f) slopes_ = alibi_slopes(style_.n_heads, style_.alibi);
  load(WeightLoader(file, options.packed, options.matrices));
  info_ = {.architecture = std::string(file.require_string("general.architecture")),
           .n_vocab = style_.n_vocab,
           .n_embd = style_.n_embd,
           .n_layers = layers_.size(),
           .max_context = style_.max_context,
           .kv = {}};
  n_labels_ = classifier_.n_labels();
  classifies_mean_ = style_.classifier.of_mean;
  projects_ = static_cast<bool>(projection_);
}

void TextEncoder::load(const WeightLoader& load) {
  load.table("token_embd.weight", tokens_, style_.n_embd, style_.n_vocab);
  if (style_.learned_positions)
    load.table("position_embd.weight", positions_, style_.n_embd, style_.max_context);
  load_types(load);
  if (style_.embedding_norm) embedding_norm_ = load_norm(load, "", "token_embd_norm");
  layers_.resize(style_.layers.size());
  for (size_t i = 0; i < layers_.size(); ++i) load_layer(load, i, layers_[i]);
  output_norm_ = load_norm(load, "", style_.output_norm);
  weight_bytes_ = layer_bytes(load.file());
  classifier_.load(load, norms_, style_.classifier, style_.n_embd);
  projection_.load(load, style_.n_embd);
}

void TextEncoder::load_layer(const WeightLoader& load, size_t index, Layer& layer) const {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  layer.style = style_.layers[index];
  const size_t n_q = style_.n_heads * style_.head_len;
  const size_t n_kv = style_.n_kv_heads * style_.head_len;
  layer.attention.load(
      load, prefix,
      {.n_embd = style_.n_embd, .n_q = n_q, .n_k = n_kv, .n_v = n_kv, .n_attended = n_q});
  if (layer.style.attn_norm) layer.attn_norm = load_norm(load, prefix, style_.norms.attn);
  layer.post_attn_norm = load_norm(load, prefix, style_.norms.post_attn);
  if (style_.norms_of_sums)
    layer.second_post_attn_norm =
        norms_.load(load, prefix + "attn_norm_2", style_.n_embd, Presence::kOptional);
  if (style_.qk_norm) load_head_norms(load, prefix, layer);
  layer.ffn_norm = load_norm(load, prefix, style_.norms.ffn);
  if (layer.style.experts)
    layer.experts.emplace(*layer.style.experts, load, prefix, style_.n_embd);
  else
    layer.dense.load(load, prefix, "", style_.n_embd, style_.n_ff, style_.gated);
  layer.post_ffn_norm = load_norm(load, prefix, style_.norms.post_ffn);
  if (style_.biases) require_biases(load, prefix, layer);
}

// Loads a norm; none if `name` is empty. Norms of sums have biases in all models.
Norm TextEncoder::load_norm(const WeightLoader& load, const std::string& prefix,
                            std::string_view name) const {
  if (name.empty()) return {};
  const std::string whole = prefix + std::string(name);
  Norm norm = norms_.load(load, whole, style_.n_embd);
  if (style_.norms_of_sums && !load.has(whole + ".bias"))
    refuse_missing(load.file(), whole + ".bias");
  return norm;
}

// Reads from the tensors' shapes which values are normed together: a head, or all heads as one row.
void TextEncoder::load_head_norms(const WeightLoader& load, const std::string& prefix,
                                  Layer& layer) const {
  const auto length_of = [&](const char* name, size_t n_all) {
    const gguf::TensorInfo* info = load.file().find_tensor(prefix + name + ".weight");
    return info == nullptr || info->n_elements() == style_.head_len ? style_.head_len : n_all;
  };
  layer.q_norm_len = length_of("attn_q_norm", style_.n_heads * style_.head_len);
  layer.k_norm_len = length_of("attn_k_norm", style_.n_kv_heads * style_.head_len);
  layer.q_norm = norms_.load(load, prefix + "attn_q_norm", layer.q_norm_len);
  layer.k_norm = norms_.load(load, prefix + "attn_k_norm", layer.k_norm_len);
}

void TextEncoder::require_biases(const WeightLoader& load, const std::string& prefix,
                                 const Layer& layer) const {
  const auto require = [&](const float* bias, const char* name) {
    if (bias == nullptr) refuse_missing(load.file(), prefix + name + ".bias");
  };
  const bool fused = load.file().find_tensor(prefix + "attn_qkv.weight") != nullptr;
  require(layer.attention.q_bias, fused ? "attn_qkv" : "attn_q");
  require(layer.attention.k_bias, "attn_k");
  require(layer.attention.v_bias, "attn_v");
  require(layer.attention.o_bias, "attn_output");
  if (layer.experts) return;
  if (!style_.gated) require(layer.dense.up_bias, "ffn_up");
  require(layer.dense.down_bias, "ffn_down");
}

// Loads the first two rows, because no text has more than two segments.
void TextEncoder::load_types(const WeightLoader& load) {
  const gguf::TensorInfo* info = load.file().find_tensor("token_types.weight");
  if (info == nullptr) return;
  tensor::Tensor table;
  load.table("token_types.weight", table, style_.n_embd, info->shape[1]);
  const size_t n = std::min<size_t>(2, table.n_rows);
  types_.resize(n * style_.n_embd);
  for (size_t i = 0; i < n; ++i)
    quant::row(table.type).decode(table.row(i), style_.n_embd, &types_[i * style_.n_embd]);
}

TextEncoder::Part TextEncoder::part_of(const TextBatch& batch, size_t first_text,
                                       size_t last_text) const {
  const uint32_t begin = first_text == 0 ? 0 : batch.ends[first_text - 1];
  Part part;
  part.tokens = batch.tokens.subspan(begin, batch.ends[last_text - 1] - begin);
  part.begin = begin;
  const auto is_there = [](const nn::Adapter* adapter) { return adapter != nullptr; };
  const bool has_adapters = std::ranges::any_of(batch.adapters, is_there);
  const bool pairs = types_.size() > style_.n_embd;
  for (size_t text = first_text; text < last_text; ++text) {
    const auto at = static_cast<uint32_t>(part.positions.size());
    const uint32_t end = batch.ends[text] - begin;
    BILLOW_CHECK(end > at && end - at <= style_.max_context);
    part.ends.push_back(end);
    const uint32_t n_first = pairs && batch.n_first[text] != 0 ? batch.n_first[text] : end - at;
    for (uint32_t position = 0; position < end - at; ++position) {
      part.positions.push_back(position);
      if (!types_.empty())
        part.types.push_back(types_.data() + (position < n_first ? 0 : style_.n_embd));
    }
    if (has_adapters) part.adapters.resize(end, batch.adapters[text]);
  }
  return part;
}

void TextEncoder::forward(const nn::Compute& compute, const TextBatch& batch,
                          tensor::Matrix hidden) const {
  const TextParts plan =
      plan_text_parts(batch.ends, static_cast<size_t>(compute.team.size()), may_be_alone());
  std::vector<Part> parts;
  for (size_t text = 0; const size_t last : plan.ends) {
    parts.push_back(part_of(batch, text, last));
    text = last;
  }
  if (plan.alone) return run_alone(compute, parts, hidden);
  for (const Part& part : parts)
    run(compute, part, {hidden.row(part.begin), part.tokens.size(), style_.n_embd});
}

// Runs each part on one thread, with separate scratch memory for each thread.
void TextEncoder::run_alone(const nn::Compute& compute, std::span<const Part> parts,
                            tensor::Matrix hidden) const {
  size_t n_rows = 0;
  size_t rank = 0;
  for (const Part& part : parts) {
    n_rows = std::max(n_rows, part.tokens.size());
    rank = std::max(rank, nn::max_rank(part.adapters));
  }
  const tensor::ArenaScope scope(compute.arena);
  const auto n_threads = static_cast<size_t>(compute.team.size());
  const size_t n_bytes = bytes_alone(compute.kernels, n_rows, rank);
  std::byte* scratch = compute.arena.bytes(n_threads * n_bytes);
  std::vector<std::exception_ptr> failures(n_threads);
  compute.team.for_pieces(parts.size(), 1, [&](size_t first, size_t last, int member) {
    const auto own = static_cast<size_t>(member);
    cpu::ThreadTeam alone(1);
    tensor::Arena arena({scratch + own * n_bytes, n_bytes});
    for (size_t i = first; i < last; ++i) {
      const Part& part = parts[i];
      try {
        run({compute.kernels, alone, arena}, part,
            {hidden.row(part.begin), part.tokens.size(), style_.n_embd});
      } catch (...) {  // no memory for a small allocation outside the scratch
        failures[own] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void TextEncoder::run(const nn::Compute& without_adapters, const Part& part,
                      tensor::Matrix x) const {
  nn::Compute compute = without_adapters;
  compute.adapters = part.adapters;
  const tensor::ArenaScope scope(compute.arena);
  embed(compute, part, x);
  const tensor::Matrix y = compute.arena.matrix(x.n_rows, style_.n_embd);
  Run run = {.compute = compute,
             .units = nn::text_units(part.ends, style_.n_heads, compute.n_threads()),
             .rotations = {}};
  for (const nn::Rope& rope : ropes_)
    run.rotations.push_back(rope.rotations(compute, part.positions));
  for (const Layer& layer : layers_) {
    if (layer.attn_norm) apply(layer.attn_norm, compute, x, y);
    attend(run, layer, layer.attn_norm ? y : x, y);
    if (layer.second_post_attn_norm) {
      const Norm& first = layer.post_attn_norm;
      nn::layer_norm(compute, y, x, {first.weight, first.bias, first.eps}, y);
      add_result(compute, layer.second_post_attn_norm, x, y);
    } else {
      add_result(compute, layer.post_attn_norm, x, y);
    }
    if (layer.ffn_norm) apply(layer.ffn_norm, compute, x, y);
    feed_forward(compute, layer, layer.ffn_norm ? y : x, y);
    add_result(compute, layer.post_ffn_norm, x, y);
  }
  if (output_norm_) apply(output_norm_, compute, x, x);
}

void TextEncoder::add_result(const nn::Compute& compute, const Norm& norm, tensor::Matrix x,
                             tensor::Matrix y) const {
  if (style_.norms_of_sums)
    return nn::layer_norm(compute, y, x, {norm.weight, norm.bias, norm.eps}, x);
  if (norm) apply(norm, compute, y, y);
  nn::add(compute, x, y);
}

void TextEncoder::look_up(const nn::Compute& compute, const Part& part, tensor::Matrix x) const {
  nn::embed(compute, tokens_, part.tokens.data(), x);
  nn::add_to_embedding(compute, part.tokens, x);
}

void TextEncoder::embed(const nn::Compute& compute, const Part& part, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  // Adapters that change the embedding are rare. Without such an adapter, one step looks a row up
  // and norms it.
  const bool looks_up_first =
      compute.sizing != nullptr || std::ranges::any_of(part.adapters, [](const auto* adapter) {
        return adapter != nullptr && adapter->embedding() != nullptr;
      });
  if (looks_up_first) look_up(compute, part, x);
  const tensor::Matrix decoded = compute.arena.matrix(compute.n_threads(), style_.n_embd);
  if (compute.sizing != nullptr) return;
  const size_t n = style_.n_embd;
  const auto decode = [n](const tensor::Tensor& table, size_t row, float* out) {
    quant::row(table.type).decode(table.row(row), n, out);
  };
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int member) {
    float* position = decoded.row(static_cast<size_t>(member));
    for (size_t i = begin; i < end; ++i) {
      float* row = x.row(i);
      if (!looks_up_first) decode(tokens_, static_cast<size_t>(part.tokens[i]), row);
      if (style_.embedding_scale != 1.0f)
        std::for_each_n(row, n, [this](float& value) { value *= style_.embedding_scale; });
      if (!part.types.empty()) compute.kernels.add(row, part.types[i], n);
      if (positions_) decode(positions_, part.positions[i], position);
      if (embedding_norm_) {
        compute.kernels.layer_norm(row, positions_ ? position : nullptr, embedding_norm_.weight,
                                   embedding_norm_.bias, n, embedding_norm_.eps, row);
      } else if (positions_) {
        compute.kernels.add(row, position, n);
      }
    }
  });
}

void TextEncoder::attend(const Run& run, const Layer& layer, tensor::Matrix x,
                         tensor::Matrix out) const {
  const nn::Compute& compute = run.compute;
  const AttentionWeights& weights = layer.attention;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix q = compute.arena.matrix(x.n_rows, weights.q.n_rows);
  const tensor::Matrix k = compute.arena.matrix(x.n_rows, weights.k.n_rows);
  const tensor::Matrix v = compute.arena.matrix(x.n_rows, weights.v.n_rows);
  nn::linear_with_outliers(compute, x,
                           {{weights.q, weights.q_bias, q},
                            {weights.k, weights.k_bias, k},
                            {weights.v, weights.v_bias, v}});
  if (layer.q_norm) apply_to_heads(layer.q_norm, compute, q, layer.q_norm_len, 0);
  if (layer.k_norm) apply_to_heads(layer.k_norm, compute, k, layer.k_norm_len, 0);
  if (layer.style.rope) {
    nn::rotate(compute, run.rotations[*layer.style.rope], q, style_.head_len);
    nn::rotate(compute, run.rotations[*layer.style.rope], k, style_.head_len);
  }
  const tensor::Matrix attended = compute.arena.matrix(x.n_rows, weights.o.n_cols);
  nn::encoder_attention(compute, run.units,
                        {.head_len = style_.head_len,
                         .scale = 1.0f / std::sqrt(static_cast<float>(style_.head_len)),
                         .q = q,
                         .k = k,
                         .v = v,
                         .reach = layer.style.reach,
                         .slopes = slopes_.empty() ? nullptr : slopes_.data()},
                        attended);
  nn::linear_with_outliers(compute, attended, {{weights.o, weights.o_bias, out}});
}

void TextEncoder::feed_forward(const nn::Compute& compute, const Layer& layer, tensor::Matrix x,
                               tensor::Matrix out) const {
  if (layer.experts) return layer.experts->forward(compute, x, x, out);
  const FeedForwardWeights& weights = layer.dense;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix up = compute.arena.matrix(x.n_rows, weights.up.n_rows);
  tensor::Matrix inner = up;
  if (weights.gate) {
    inner = compute.arena.matrix(x.n_rows, weights.gate.n_rows);
    nn::linear_with_outliers(
        compute, x, {{weights.gate, weights.gate_bias, inner}, {weights.up, weights.up_bias, up}});
    nn::activate_gated(compute, style_.activation, inner, up);
  } else {
    nn::linear_with_outliers(compute, x, {{weights.up, weights.up_bias, up}});
    nn::activate(compute, style_.activation, {}, up);
  }
  nn::linear_with_outliers(compute, inner, {{weights.down, weights.down_bias, out}});
}

void TextEncoder::classify(const nn::Compute& compute, tensor::Matrix x,
                           tensor::Matrix scores) const {
  arch::classify(compute, classifier_, x, scores);
}

void TextEncoder::project(const nn::Compute& compute, tensor::Matrix x) const {
  projection_.apply(compute, x);
}

// Counts the scratch memory of a part of n rows.
void TextEncoder::size_run(const nn::Compute& compute, size_t n) const {
  tensor::Arena lender{tensor::Arena::Counting{}};  // for the caller's matrix, which is not scratch
  Part part;
  part.positions.resize(n);
  run(compute, part, lender.matrix(n, style_.n_embd));
}

// Returns the scratch bytes of a part of n rows that one thread computes.
size_t TextEncoder::bytes_alone(const kernels::KernelTable& kernels, size_t n,
                                size_t adapter_rank) const {
  tensor::Arena arena{tensor::Arena::Counting{}};
  cpu::ThreadTeam nobody(1);
  const nn::Sizing sizing = {.n_positions = n, .n_threads = 1, .adapter_rank = adapter_rank};
  size_run({kernels, nobody, arena, &sizing}, n);
  return arena.n_bytes();
}

size_t TextEncoder::scratch_bytes(const kernels::KernelTable& kernels,
                                  const PassLimits& limits) const {
  const auto rows_of_part = [&](size_t max) {
    return std::min(limits.n_rows, std::max(max, limits.n_positions));
  };
  tensor::Arena arena{tensor::Arena::Counting{}};
  cpu::ThreadTeam nobody(1);
  const nn::Sizing sizing = {.n_positions = std::min(limits.n_positions, limits.n_rows),
                             .n_threads = limits.n_threads,
                             .adapter_rank = limits.adapter_rank};
  const nn::Compute compute = {kernels, nobody, arena, &sizing};
  (void)arena.matrix(limits.n_hidden_rows, style_.n_embd);
  size_run(compute, rows_of_part(rows_together(limits.n_threads)));
  if (may_be_alone() && limits.n_threads > 1) {
    const tensor::ArenaScope scope(arena);
    const size_t n_alone =
        std::min(rows_of_part(kRowsAlone), max_rows_alone(limits.n_rows, limits.n_threads));
    (void)arena.bytes(limits.n_threads * bytes_alone(kernels, n_alone, limits.adapter_rank));
  }
  const tensor::Matrix pooled = arena.matrix(limits.n_logit_rows, style_.n_embd);
  if (n_labels_ != 0) classify(compute, pooled, arena.matrix(limits.n_logit_rows, n_labels_));
  if (projects_) project(compute, pooled);
  return arena.n_bytes();
}

}  // namespace billow::arch

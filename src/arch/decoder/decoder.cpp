#include "arch/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "nn/for_rows.h"
#include "nn/linear.h"
#include "nn/low_rank.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

size_t widest_norm(const DecoderStyle& style) {
  size_t widest = style.n_embd;
  for (const LayerStyle& layer : style.layers) {
    if (const auto* attention = std::get_if<AttentionStyle>(&layer.mixer))
      widest = std::max({widest, attention->n_heads * attention->k_len, attention->v_len});
    if (const auto* latent = std::get_if<LatentAttentionStyle>(&layer.mixer))
      widest = std::max({widest, latent->q_rank, latent->kv_rank});
    if (const auto* mamba = std::get_if<MambaStyle>(&layer.mixer))
      widest = std::max({widest, mamba->n_steps, mamba->n_states});
  }
  return std::max(widest, style.n_embd_per_layer);
}

template <class Mixer>
constexpr bool kIsNone = std::is_same_v<std::decay_t<Mixer>, std::monostate>;

template <class Mixer>
kv::LayerNeed need_of(const Mixer& mixer) {
  return std::visit(
      [](const auto& one) {
        if constexpr (kIsNone<decltype(one)>)
          return kv::LayerNeed{};
        else
          return one.kv_need();
      },
      mixer);
}

// Returns the need of two parallel mixers. At most one of them has keys and values, and at most one
// has a state.
kv::LayerNeed joint_need(const kv::LayerNeed& a, const kv::LayerNeed& b) {
  BILLOW_CHECK((a.n_heads == 0 || b.n_heads == 0) && (a.state_floats == 0 || b.state_floats == 0));
  kv::LayerNeed both = a.n_heads != 0 ? a : b;
  both.state_floats = a.state_floats + b.state_floats;
  return both;
}

size_t short_text(std::span<const nn::RopeParams> ropes) {
  const auto found = std::ranges::find_if(
      ropes, [](const nn::RopeParams& rope) { return rope.long_divisors != nullptr; });
  return found == ropes.end() ? 0 : static_cast<size_t>(found->original_context);
}

bool sees_whole_pictures(const LayerStyle& layer) {
  const auto* const attention = std::get_if<AttentionStyle>(&layer.mixer);
  return attention != nullptr && attention->whole_pictures;
}

// Returns the adapter of each row; empty if no row has an adapter.
std::vector<const nn::Adapter*> adapters_of_rows(const Batch& batch) {
  std::vector<const nn::Adapter*> adapters;
  const auto is_there = [](const nn::Adapter* adapter) { return adapter != nullptr; };
  if (std::ranges::none_of(batch.adapters, is_there)) return adapters;
  adapters.reserve(batch.sequences.size());
  for (const uint32_t sequence : batch.sequences) adapters.push_back(batch.adapters[sequence]);
  return adapters;
}

template <size_t kIndex>
using Indexed = std::integral_constant<size_t, kIndex>;

}  // namespace

Decoder::Decoder(DecoderStyle style, const gguf::File& file, const LoadOptions& options)
    : style_(std::move(style)), norms_(style_.norm, style_.norm_epsilon, widest_norm(style_)) {
  const WeightLoader load(file, options.packed, options.matrices);
  for (const nn::RopeParams& rope : style_.ropes) ropes_.emplace_back(rope);
  output_.load(load, style_, norms_);
  if (style_.embedding_norm) embedding_norm_ = norms_.load(load, "token_embd_norm", style_.n_embd);
  if (style_.learned_positions)
    load.table("position_embd.weight", positions_, style_.n_embd, style_.max_context);
  info_ = {.architecture = style_.architecture,
           .n_vocab = style_.n_vocab,
           .n_embd = style_.n_embd,
           .n_layers = style_.layers.size(),
           .max_context = style_.max_context,
           .short_text = short_text(style_.ropes),
           .n_deep = style_.n_deep,
           .has_grid = std::ranges::any_of(ropes_, &nn::Rope::has_axes),
           .sees_whole_pictures = std::ranges::any_of(style_.layers, sees_whole_pictures),
           .kv = {}};
  load_layers(load);
  if (style_.n_embd_per_layer != 0) load_own_inputs(load);
  if (style_.altup) altup_.emplace(*style_.altup, load, layers_.size(), style_.n_embd, norms_);
}

Decoder::Decoder(DecoderStyle style, const gguf::File& file, const LoadOptions& options,
                 const OutputWeights& of_model)
    : style_(std::move(style)), norms_(style_.norm, style_.norm_epsilon, widest_norm(style_)) {
  const WeightLoader load(file, options.packed);
  for (const nn::RopeParams& rope : style_.ropes) ropes_.emplace_back(rope);
  const std::string prefix = "blk." + std::to_string(style_.first_block) + ".nextn.";
  const size_t n_embd = style_.n_embd;
  load.matrix(prefix + "eh_proj.weight", join_, 2 * n_embd, n_embd);
  token_norm_ = norms_.load(load, prefix + "enorm", n_embd);
  state_norm_ = norms_.load(load, prefix + "hnorm", n_embd);
  output_.load_head(load, style_, norms_, prefix, of_model);
  info_ = {.architecture = style_.architecture,
           .n_vocab = style_.n_vocab,
           .n_embd = n_embd,
           .n_layers = style_.layers.size(),
           .max_context = style_.max_context,
           .short_text = short_text(style_.ropes),
           .kv = {}};
  load_layers(load);
}

void Decoder::load_head(const gguf::File& file, const LoadOptions& options) {
  DecoderStyle style = style_;
  style.first_block = style_.first_block + layers_.size();
  const std::string name = "blk." + std::to_string(style.first_block) + ".nextn.eh_proj.weight";
  if (file.find_tensor(name) == nullptr) return;
  const auto has_attention = [](const LayerStyle& layer) {
    return std::holds_alternative<AttentionStyle>(layer.mixer) ||
           std::holds_alternative<LatentAttentionStyle>(layer.mixer);
  };
  const auto found =
      std::ranges::find_if(style_.layers.rbegin(), style_.layers.rend(), has_attention);
  if (found == style_.layers.rend()) return;
  style.layers = {*found};
  style.predicts = true;
  head_.reset(new Decoder(std::move(style), file, options, output_));
}

void Decoder::load_layers(const WeightLoader& load) {
  layers_.resize(style_.layers.size());
  for (size_t i = 0; i < layers_.size(); ++i) {
    load_layer(load, i, layers_[i]);
    kv::LayerNeed need = joint_need(need_of(layers_[i].mixer), need_of(layers_[i].beside));
    if (layers_[i].channel_mix) need.state_floats += layers_[i].channel_mix->state_floats();
    info_.kv.push_back(need);
  }
}

Decoder::Mixer Decoder::load_mixer(const WeightLoader& load, const MixerStyle& style,
                                   const std::string& prefix) const {
  Mixer mixer;
  const auto load_one = [&]<size_t kIndex>(Indexed<kIndex>) {
    if (style.index() == kIndex)
      mixer.emplace<kIndex>(std::get<kIndex>(style), load, prefix, style_.n_embd, norms_);
  };
  static_assert(std::variant_size_v<Mixer> == std::variant_size_v<MixerStyle>);
  [&]<size_t... kIndices>(std::index_sequence<kIndices...>) {
    (load_one(Indexed<kIndices + 1>{}), ...);
  }(std::make_index_sequence<std::variant_size_v<Mixer> - 1>{});
  return mixer;
}

void Decoder::load_layer(const WeightLoader& load, size_t index, Layer& layer) {
  const LayerStyle& style = style_.layers[index];
  const std::string prefix = "blk." + std::to_string(style_.first_block + index) + ".";
  const size_t n_embd = style_.n_embd;
  const auto norm = [&](std::string_view name) {
    return name.empty() ? Norm{} : norms_.load(load, prefix + std::string(name), n_embd);
  };
  layer.attn_norm = norm(style.norms.attn);
  layer.mixer = load_mixer(load, style.mixer, prefix);
  layer.beside = load_mixer(load, style.beside, prefix);
  layer.post_attn_norm = norm(style.norms.post_attn);
  if (style.dense || style.experts || style.channel_mix) layer.ffn_norm = norm(style.norms.ffn);
  if (style.dense)
    layer.dense.load(load, prefix, "", n_embd, style.dense->n_ff, style.dense->gated);
  if (style.channel_mix) {
    const size_t first_float = need_of(layer.mixer).state_floats;
    layer.channel_mix.emplace(*style.channel_mix, load, prefix, n_embd, first_float);
  }
  if (style.experts) {
    layer.experts.emplace(*style.experts, load, prefix, n_embd);
    if (style.experts->adds_dense) {
      load.vector(prefix + "ffn_gate_inp.scale", layer.router_scale, n_embd);
      layer.post_dense_norm = norm("post_ffw_norm_1");
      layer.experts_norm = norm("pre_ffw_norm_2");
      layer.post_experts_norm = norm("post_ffw_norm_2");
    }
  }
  layer.post_ffn_norm = norm(style.norms.post_ffn);
  if (style.output_scale)
    load.vector(prefix + "layer_output_scale.weight", layer.output_scale, 1, Presence::kOptional);
  if (style_.n_embd_per_layer == 0) return;
  load.matrix(prefix + "inp_gate.weight", layer.own_gate, n_embd, style_.n_embd_per_layer);
  load.matrix(prefix + "proj.weight", layer.own_proj, style_.n_embd_per_layer, n_embd);
  layer.own_norm = norm("post_norm");
}

void Decoder::load_own_inputs(const WeightLoader& load) {
  const size_t n_all = style_.n_embd_per_layer * layers_.size();
  load.table("per_layer_token_embd.weight", own_embedding_, n_all, style_.n_vocab);
  load.matrix("per_layer_model_proj.weight", own_model_proj_, style_.n_embd, n_all);
  own_proj_norm_ = norms_.load(load, "per_layer_proj_norm", style_.n_embd_per_layer);
}

void Decoder::forward(const nn::Compute& without_adapters, kv::Cache* cache, const Batch& batch,
                      const Outputs& out) const {
  const std::vector<const nn::Adapter*> adapters = adapters_of_rows(batch);
  nn::Compute compute = without_adapters;
  compute.adapters = adapters;
  if (compute.kernels.has_read_kernels) compute.kinds = batch.kinds;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), style_.n_embd);
  const tensor::Matrix y = compute.arena.matrix(batch.tokens.size(), style_.n_embd);
  Pass pass(compute, cache, info_, batch, ropes_);
  if (style_.first_values)
    pass.first_values = compute.arena.matrix(batch.tokens.size(), style_.n_embd);
  if (style_.predicts)
    join(pass, x);
  else
    embed(pass, x);
  const tensor::Matrix own =
      style_.n_embd_per_layer == 0 ? tensor::Matrix{} : own_inputs(compute, batch, x);
  if (altup_) {
    const tensor::Matrix states = altup_->new_states(compute, x.n_rows);
    const tensor::Matrix predicted = altup_->new_states(compute, x.n_rows);
    altup_->spread(compute, x, states);
    for (size_t i = 0; i < layers_.size(); ++i)
      run_layer_of_states(pass, i, states, predicted, x, y, own);
    altup_->merge(compute, states, x);
  } else {
    for (size_t i = 0; i < layers_.size(); ++i) {
      run_layer(pass, i, x, y, own);
      if (i < style_.n_deep) add_deep_embeddings(pass, i, x);
    }
  }
  output_block(compute, output_, style_, batch, x, out);
}

void Decoder::embed(const Pass& pass, tensor::Matrix x) const {
  const nn::Compute& compute = pass.compute;
  const Batch& batch = pass.batch;
  nn::embed(compute, output_.embedding, batch.tokens.data(), x);
  nn::add_to_embedding(compute, batch.tokens, x);
  if (style_.embedding_scale != 1.0f) nn::scale(compute, x, style_.embedding_scale);
  for (size_t i = 0; i < batch.embeddings.size(); ++i)
    if (batch.embeddings[i] != nullptr) std::copy_n(batch.embeddings[i], x.n_cols, x.row(i));
  if (positions_) {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix rows = compute.arena.matrix(x.n_rows, x.n_cols);
    // Rows after a gap use their positions without the gap, because there are position embeddings
    // only for as many positions as a sequence holds.
    const std::span<const uint32_t> positions =
        pass.has_gaps ? pass.closed_positions : batch.positions;
    nn::for_rows(compute, x.n_rows, [&](size_t i) {
      BILLOW_CHECK(positions[i] < positions_.n_rows);
      quant::row(positions_.type).decode(positions_.row(positions[i]), x.n_cols, rows.row(i));
    });
    nn::add(compute, x, rows);
  }
  if (embedding_norm_) apply(embedding_norm_, compute, x, x);
}

// x = the product of each row's token and state.
void Decoder::join(const Pass& pass, tensor::Matrix x) const {
  const nn::Compute& compute = pass.compute;
  const size_t n = x.n_cols;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix tokens = compute.arena.matrix(x.n_rows, n);
  const tensor::Matrix joined = compute.arena.matrix(x.n_rows, 2 * n);
  nn::embed(compute, output_.embedding, pass.batch.tokens.data(), tokens);
  BILLOW_CHECK(compute.sizing != nullptr || pass.batch.states.size() == x.n_rows);
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    float* const to = joined.row(row);
    apply_to_row(token_norm_, compute.kernels, tokens.row(row), n, to);
    apply_to_row(state_norm_, compute.kernels, pass.batch.states[row], n, to + n);
  });
  nn::linear(compute, joined, {{join_, nullptr, x}});
}

void Decoder::add_deep_embeddings(const Pass& pass, size_t index, tensor::Matrix x) {
  for (size_t i = 0; i < pass.batch.embeddings.size(); ++i) {
    const float* const embedding = pass.batch.embeddings[i];
    if (embedding == nullptr) continue;
    const float* const deep = embedding + (index + 1) * x.n_cols;
    for (size_t j = 0; j < x.n_cols; ++j) x.row(i)[j] += deep[j];
  }
}

tensor::Matrix Decoder::own_inputs(const nn::Compute& compute, const Batch& batch,
                                   tensor::Matrix x) const {
  const size_t n = x.n_rows;
  const size_t n_own = style_.n_embd_per_layer;
  const size_t n_layers = layers_.size();
  const tensor::Matrix by_layer = compute.arena.matrix(n_layers * n, n_own);
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix gathered = compute.arena.matrix(n, n_own * n_layers);
  const tensor::Matrix projected = compute.arena.matrix(n, n_own * n_layers);
  nn::embed(compute, own_embedding_, batch.tokens.data(), gathered);
  nn::linear(compute, x, {{own_model_proj_, nullptr, projected}});
  nn::scale(compute, projected, 1.0f / std::sqrt(static_cast<float>(style_.n_embd)));
  apply_to_heads(own_proj_norm_, compute, projected, n_own, 0);
  if (compute.sizing != nullptr) return by_layer;
  const float of_token = std::sqrt(static_cast<float>(n_own));
  const float of_sum = std::sqrt(0.5f);
  for (size_t row = 0; row < n; ++row) {
    for (size_t i = 0; i < n_own * n_layers; ++i) {
      by_layer.row(i / n_own * n + row)[i % n_own] =
          (projected.row(row)[i] + gathered.row(row)[i] * of_token) * of_sum;
    }
  }
  return by_layer;
}

void Decoder::mix(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const {
  const auto run = [&](const Mixer& mixer, tensor::Matrix to) {
    std::visit(
        [&](const auto& one) {
          if constexpr (!kIsNone<decltype(one)>) one.forward(pass, index, x, to);
        },
        mixer);
  };
  const Layer& layer = layers_[index];
  if (std::holds_alternative<std::monostate>(layer.beside)) return run(layer.mixer, out);
  const nn::Compute& compute = pass.compute;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix second = compute.arena.matrix(x.n_rows, x.n_cols);
  run(layer.beside, second);
  run(layer.mixer, out);
  nn::add(compute, out, second);
}

void Decoder::feed_forward(const Pass& pass, size_t index, tensor::Matrix state, tensor::Matrix x,
                           tensor::Matrix out) const {
  const nn::Compute& compute = pass.compute;
  const LayerStyle& style = style_.layers[index];
  const Layer& layer = layers_[index];
  if (layer.channel_mix) return layer.channel_mix->forward(pass, index, x, out);
  if (!layer.experts) return feed_forward_block(compute, layer.dense, *style.dense, x, out);
  if (!style.experts->adds_dense) return layer.experts->forward(compute, x, x, out);
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix routed = compute.arena.matrix(x.n_rows, x.n_cols);
  const tensor::Matrix chosen = compute.arena.matrix(x.n_rows, x.n_cols);
  feed_forward_block(compute, layer.dense, *style.dense, x, out);
  apply(layer.post_dense_norm, compute, out, out);
  Norm of_router = norms_.plain_rms();
  of_router.weight = layer.router_scale;
  apply(of_router, compute, state, routed);
  nn::scale(compute, routed, 1.0f / std::sqrt(static_cast<float>(style_.n_embd)));
  apply(layer.experts_norm, compute, state, chosen);
  layer.experts->forward(compute, routed, chosen, chosen);
  apply(layer.post_experts_norm, compute, chosen, chosen);
  nn::add(compute, out, chosen);
}

void Decoder::own_input(const nn::Compute& compute, size_t index, tensor::Matrix x,
                        tensor::Matrix own, tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const Layer& layer = layers_[index];
  const tensor::Matrix gate = compute.arena.matrix(x.n_rows, style_.n_embd_per_layer);
  const tensor::Matrix of_layer = {own.data + index * x.n_rows * own.n_cols, x.n_rows, own.n_cols};
  nn::linear(compute, x, {{layer.own_gate, nullptr, gate}});
  nn::activate_gated(compute, nn::Activation::kGeluTanh, gate, of_layer);
  nn::linear(compute, gate, {{layer.own_proj, nullptr, out}});
  apply(layer.own_norm, compute, out, out);
}

void Decoder::run_layer_of_states(const Pass& pass, size_t index, tensor::Matrix states,
                                  tensor::Matrix predicted, tensor::Matrix x, tensor::Matrix y,
                                  tensor::Matrix own) const {
  const nn::Compute& compute = pass.compute;
  altup_->predict(compute, index, states, predicted, x);
  run_layer(pass, index, x, y, own);
  altup_->correct(compute, index, predicted, x, states);
  if (!layers_[index].own_gate) return;
  altup_->scale_first(compute, index, states, y);
  own_input(compute, index, y, own, y);
  altup_->add_to_others(compute, y, states);
}

void Decoder::run_layer(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix y,
                        tensor::Matrix own) const {
  const nn::Compute& compute = pass.compute;
  const LayerStyle& style = style_.layers[index];
  const Layer& layer = layers_[index];
  const bool has_ffn = layer.experts || style.dense || layer.channel_mix;
  const tensor::ArenaScope scope(compute.arena);
  const auto norm_or_copy = [&](const Norm& norm, tensor::Matrix from, tensor::Matrix to) {
    if (norm)
      apply(norm, compute, from, to);
    else if (compute.sizing == nullptr && from.data != to.data)
      std::copy_n(from.data, from.n_rows * from.n_cols, to.data);
  };
  const auto add = [&](const Norm& post, tensor::Matrix result) {
    if (post) apply(post, compute, result, result);
    if (style_.residual_scale != 1.0f) nn::scale(compute, result, style_.residual_scale);
    nn::add(compute, x, result);
  };
  tensor::Matrix fed = y;
  if (style.parallel) {
    fed = compute.arena.matrix(x.n_rows, x.n_cols);
    if (layer.ffn_norm) apply(layer.ffn_norm, compute, x, fed);
  }
  norm_or_copy(layer.attn_norm, x, y);
  if (style.parallel && !layer.ffn_norm) norm_or_copy({}, y, fed);
  tensor::Matrix laurel;
  if (altup_) {
    laurel = compute.arena.matrix(x.n_rows, x.n_cols);
    altup_->laurel(compute, index, y, laurel);
  }
  mix(pass, index, y, y);
  if (style.parallel) {
    feed_forward(pass, index, x, fed, fed);
    add(layer.post_attn_norm, y);
    add(layer.post_ffn_norm, fed);
  } else {
    if (!std::holds_alternative<std::monostate>(layer.mixer)) add(layer.post_attn_norm, y);
    if (altup_) {
      nn::add(compute, x, laurel);
      nn::scale(compute, x, std::sqrt(0.5f));
    }
    if (has_ffn) {
      norm_or_copy(layer.ffn_norm, x, y);
      feed_forward(pass, index, x, y, y);
      add(layer.post_ffn_norm, y);
    }
  }
  if (layer.own_gate && !altup_) {
    own_input(compute, index, x, own, y);
    nn::add(compute, x, y);
  }
  if (layer.output_scale != nullptr && compute.sizing == nullptr)
    nn::scale(compute, x, *layer.output_scale);
}

}  // namespace billow::arch

#include "arch/encoders/post_norm_encoder.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "arch/encoders/text_parts.h"
#include "arch/rope.h"
#include "base/check.h"
#include "base/error.h"
#include "nn/outliers.h"

namespace billow::arch {
namespace {

void note_type(const tensor::Tensor& weight, std::vector<const quant::TypeRow*>& types) {
  const quant::TypeRow* type = &quant::row(weight.type);
  if (weight && std::ranges::count(types, type) == 0) types.push_back(type);
}

// Of a part of n rows that one thread has. What packing on the way would take is counted, too.
PassLimits limits_alone(size_t n) { return {.n_rows = n, .n_positions = n, .packed = false}; }

[[noreturn]] void refuse_missing(const gguf::File& file, const std::string& name) {
  throw Error(ErrorCode::kInvalidInput,
              file.path() + ": tensor " + name +
                  " is missing; the file is incomplete or of another architecture");
}

}  // namespace

PostNormEncoder::PostNormEncoder(const gguf::File& file, const LoadOptions& options,
                                 const EncoderStyle& style)
    : h_(read_encoder_hparams(Metadata(file))),
      scale_(1.0f / std::sqrt(static_cast<float>(h_.head_len))) {
  if (style.positions == EncoderPositions::kRotary)
    rope_ = nn::Rope(
        read_rope(Metadata(file), kernels::RopeKind::kHalves, h_.head_len, h_.max_context));
  load(WeightLoader(file, options.packed), style);
  info_ = {.architecture = std::string(file.require_string("general.architecture")),
           .n_vocab = h_.n_vocab,
           .n_embd = h_.n_embd,
           .n_layers = h_.n_layers,
           .max_context = h_.max_context,
           .kv = {}};
  n_labels_ = classifier_.n_labels();
}

void PostNormEncoder::load(const WeightLoader& load, const EncoderStyle& style) {
  load.plain_matrix("token_embd.weight", tokens_, h_.n_embd, h_.n_vocab);
  if (style.positions == EncoderPositions::kLearned)
    load.plain_matrix("position_embd.weight", positions_, h_.n_embd, h_.max_context);
  load_types(load);
  load_norm(load, "token_embd_norm", embedding_norm_);
  layers_.resize(h_.n_layers);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    Layer& layer = layers_[i];
    const size_t n_heads = h_.n_heads * h_.head_len;
    layer.attention.load(load, prefix,
                         {.n_embd = h_.n_embd,
                          .n_q = n_heads,
                          .n_k = n_heads,
                          .n_v = n_heads,
                          .n_attended = n_heads});
    load_norm(load, prefix + "attn_output_norm", layer.attention_norm);
    layer.feed_forward.load(load, prefix, "", h_.n_embd, h_.n_ff, style.gated);
    load_norm(load, prefix + "layer_output_norm", layer.output_norm);
    if (style.biases) require_biases(load, prefix, layer);
    for (const tensor::Tensor* weight :
         {&layer.attention.q, &layer.attention.k, &layer.attention.v, &layer.attention.o,
          &layer.feed_forward.gate, &layer.feed_forward.up, &layer.feed_forward.down}) {
      note_type(*weight, layer_types_);
      if (*weight) weight_bytes_ += weight->n_rows * weight->row_bytes();
    }
  }
  classifier_.load(load, h_);
  note_type(classifier_.dense, classifier_types_);
  note_type(classifier_.output, classifier_types_);
}

void PostNormEncoder::load_norm(const WeightLoader& load, const std::string& name,
                                nn::LayerNorm& norm) const {
  load.vector(name + ".weight", norm.weight, h_.n_embd);
  load.vector(name + ".bias", norm.bias, h_.n_embd);
  norm.eps = h_.norm_epsilon;
}

void PostNormEncoder::require_biases(const WeightLoader& load, const std::string& prefix,
                                     const Layer& layer) const {
  const auto require = [&](const float* bias, const char* name) {
    if (bias == nullptr) refuse_missing(load.file(), prefix + name + ".bias");
  };
  const bool fused = load.file().find_tensor(prefix + "attn_qkv.weight") != nullptr;
  require(layer.attention.q_bias, fused ? "attn_qkv" : "attn_q");
  require(layer.attention.k_bias, "attn_k");
  require(layer.attention.v_bias, "attn_v");
  require(layer.attention.o_bias, "attn_output");
  require(layer.feed_forward.up_bias, "ffn_up");
  require(layer.feed_forward.down_bias, "ffn_down");
}

// The first two rows: no text has more segments.
void PostNormEncoder::load_types(const WeightLoader& load) {
  const gguf::TensorInfo* info = load.file().find_tensor("token_types.weight");
  if (info == nullptr) return;
  tensor::Tensor table;
  load.plain_matrix("token_types.weight", table, h_.n_embd, info->shape[1]);
  const size_t n = std::min<size_t>(2, table.n_rows);
  types_.resize(n * h_.n_embd);
  for (size_t i = 0; i < n; ++i)
    quant::row(table.type).decode(table.row(i), h_.n_embd, &types_[i * h_.n_embd]);
}

PostNormEncoder::Part PostNormEncoder::part_of(const TextBatch& batch, size_t first_text,
                                               size_t last_text) const {
  const uint32_t begin = first_text == 0 ? 0 : batch.ends[first_text - 1];
  Part part;
  part.tokens = batch.tokens.subspan(begin, batch.ends[last_text - 1] - begin);
  part.begin = begin;
  const bool pairs = types_.size() > h_.n_embd;
  for (size_t text = first_text; text < last_text; ++text) {
    const auto at = static_cast<uint32_t>(part.positions.size());
    const uint32_t end = batch.ends[text] - begin;
    BILLOW_CHECK(end > at && end - at <= h_.max_context);
    part.ends.push_back(end);
    const uint32_t n_first = pairs && batch.n_first[text] != 0 ? batch.n_first[text] : end - at;
    for (uint32_t position = 0; position < end - at; ++position) {
      part.positions.push_back(position);
      if (!types_.empty())
        part.types.push_back(types_.data() + (position < n_first ? 0 : h_.n_embd));
    }
  }
  return part;
}

void PostNormEncoder::forward(const nn::Compute& compute, const TextBatch& batch,
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
    run(compute, part, {hidden.row(part.begin), part.tokens.size(), h_.n_embd});
}

// Each part by one thread, in scratch of its own.
void PostNormEncoder::run_alone(const nn::Compute& compute, std::span<const Part> parts,
                                tensor::Matrix hidden) const {
  size_t n_rows = 0;
  for (const Part& part : parts) n_rows = std::max(n_rows, part.tokens.size());
  const tensor::ArenaScope scope(compute.arena);
  const auto n_threads = static_cast<size_t>(compute.team.size());
  const size_t n_bytes = run_bytes(compute.kernels, limits_alone(n_rows), n_rows);
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
            {hidden.row(part.begin), part.tokens.size(), h_.n_embd});
      } catch (...) {  // no memory for a small thing beside the scratch
        failures[own] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

void PostNormEncoder::run(const nn::Compute& compute, const Part& part, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  embed(compute, part, x);
  const tensor::Matrix y = compute.arena.matrix(x.n_rows, h_.n_embd);
  const bool rotary = rope_.n_rot() != 0;
  const nn::Rope::Rotations rotations =
      rotary ? rope_.rotations(compute, part.positions) : nn::Rope::Rotations{};
  const std::vector<nn::TextUnit> units = nn::text_units(part.ends, h_.n_heads);
  for (const Layer& layer : layers_) {
    attend(compute, layer, units, rotations, x, y);
    nn::layer_norm(compute, y, x, layer.attention_norm, x);
    feed_forward(compute, layer.feed_forward, x, y);
    nn::layer_norm(compute, y, x, layer.output_norm, x);
  }
}

void PostNormEncoder::embed(const nn::Compute& compute, const Part& part, tensor::Matrix x) const {
  const tensor::ArenaScope scope(compute.arena);
  const auto n_threads = static_cast<size_t>(compute.team.size());
  const tensor::Matrix decoded = compute.arena.matrix(n_threads, h_.n_embd);
  const auto decode = [](const tensor::Tensor& table, size_t row, float* out) {
    quant::row(table.type).decode(table.row(row), table.n_cols, out);
  };
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int member) {
    float* position = decoded.row(static_cast<size_t>(member));
    for (size_t i = begin; i < end; ++i) {
      decode(tokens_, static_cast<size_t>(part.tokens[i]), x.row(i));
      if (!part.types.empty()) compute.kernels.add(x.row(i), part.types[i], h_.n_embd);
      if (positions_) decode(positions_, part.positions[i], position);
      compute.kernels.layer_norm(x.row(i), positions_ ? position : nullptr, embedding_norm_.weight,
                                 embedding_norm_.bias, h_.n_embd, embedding_norm_.eps, x.row(i));
    }
  });
}

void PostNormEncoder::attend(const nn::Compute& compute, const Layer& layer,
                             std::span<const nn::TextUnit> units,
                             const nn::Rope::Rotations& rotations, tensor::Matrix x,
                             tensor::Matrix out) const {
  const AttentionWeights& weights = layer.attention;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix q = compute.arena.matrix(x.n_rows, weights.q.n_rows);
  const tensor::Matrix k = compute.arena.matrix(x.n_rows, weights.k.n_rows);
  const tensor::Matrix v = compute.arena.matrix(x.n_rows, weights.v.n_rows);
  nn::linear_with_outliers(compute, x,
                           {{weights.q, weights.q_bias, q},
                            {weights.k, weights.k_bias, k},
                            {weights.v, weights.v_bias, v}});
  if (rotations.rope != nullptr) {
    nn::rotate(compute, rotations, q, h_.head_len);
    nn::rotate(compute, rotations, k, h_.head_len);
  }
  const tensor::Matrix attended = compute.arena.matrix(x.n_rows, weights.o.n_cols);
  nn::text_attention(compute, units,
                     {.head_len = h_.head_len, .scale = scale_, .q = q, .k = k, .v = v}, attended);
  nn::linear_with_outliers(compute, attended, {{weights.o, weights.o_bias, out}});
}

void PostNormEncoder::feed_forward(const nn::Compute& compute, const FeedForwardWeights& weights,
                                   tensor::Matrix x, tensor::Matrix out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix up = compute.arena.matrix(x.n_rows, weights.up.n_rows);
  tensor::Matrix inner = up;
  if (weights.gate) {
    inner = compute.arena.matrix(x.n_rows, weights.gate.n_rows);
    nn::linear_with_outliers(
        compute, x, {{weights.gate, weights.gate_bias, inner}, {weights.up, weights.up_bias, up}});
    nn::silu_multiply(compute, inner, up);
  } else {
    nn::linear_with_outliers(compute, x, {{weights.up, weights.up_bias, up}});
    nn::gelu(compute, up);
  }
  nn::linear_with_outliers(compute, inner, {{weights.down, weights.down_bias, out}});
}

void PostNormEncoder::classify(const nn::Compute& compute, tensor::Matrix x,
                               tensor::Matrix scores) const {
  arch::classify(compute, classifier_, x, scores);
}

// The larger part of a layer, for n rows.
size_t PostNormEncoder::layer_bytes(const kernels::KernelTable& kernels, const PassLimits& limits,
                                    size_t n) const {
  const size_t width = h_.n_heads * h_.head_len;
  const size_t widest = std::max({width, h_.n_ff, h_.n_embd});
  // The products, or those of the rests of rows with outliers after them.
  const auto linear = [&](size_t k) {
    const size_t n_again = std::min(n, nn::kOutlierRows);
    return std::max(linear_scratch_bytes(kernels, limits, layer_types_, n, k),
                    float_bytes(n_again * k) + float_bytes(n_again * widest) +
                        linear_scratch_bytes(kernels, limits, layer_types_, n_again, k));
  };
  const size_t own = nn::text_attention_bytes(std::min(limits.n_positions, n), h_.head_len);
  const size_t attention = 4 * float_bytes(n * width) +
                           std::max({linear(h_.n_embd), linear(width), limits.n_threads * own});
  const bool gated = static_cast<bool>(layers_.front().feed_forward.gate);
  const size_t feed_forward =
      (gated ? 2 : 1) * float_bytes(n * h_.n_ff) + std::max(linear(h_.n_embd), linear(h_.n_ff));
  return std::max(attention, feed_forward);
}

// What a part of n rows takes.
size_t PostNormEncoder::run_bytes(const kernels::KernelTable& kernels, const PassLimits& limits,
                                  size_t n) const {
  const size_t rotations = 2 * float_bytes(n * (rope_.n_rot() / 2));
  return float_bytes(n * h_.n_embd) + rotations +
         std::max(float_bytes(limits.n_threads * h_.n_embd), layer_bytes(kernels, limits, n));
}

size_t PostNormEncoder::scratch_bytes(const kernels::KernelTable& kernels,
                                      const PassLimits& limits) const {
  const auto rows_of_part = [&](size_t most) {
    return std::min(limits.n_rows, std::max(most, limits.n_positions));
  };
  const size_t n = rows_of_part(rows_together(limits.n_threads));
  size_t run = run_bytes(kernels, limits, n);
  if (may_be_alone() && limits.n_threads > 1) {
    const size_t n_alone =
        std::min(rows_of_part(kRowsAlone), most_rows_alone(limits.n_rows, limits.n_threads));
    run = std::max(run, limits.n_threads * run_bytes(kernels, limits_alone(n_alone), n_alone));
  }
  const size_t n_scored = n_labels_ == 0 ? 0 : limits.n_logit_rows;
  const size_t dense = classifier_.dense.n_rows;
  const auto linear = [&](size_t k) {
    return linear_scratch_bytes(kernels, limits, classifier_types_, n_scored, k);
  };
  const size_t classify = float_bytes(n_scored * h_.n_embd) + float_bytes(n_scored * n_labels_) +
                          float_bytes(n_scored * dense) +
                          std::max(linear(h_.n_embd), linear(dense));
  const size_t sum =
      float_bytes(limits.n_hidden_rows * h_.n_embd) + std::max(run, n_scored == 0 ? 0 : classify);
  return (sum + tensor::Arena::kPage - 1) / tensor::Arena::kPage * tensor::Arena::kPage;
}

}  // namespace billow::arch

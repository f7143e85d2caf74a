#include "arch/decoder/read.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "arch/rope.h"
#include "arch/weights.h"
#include "base/check.h"
#include "base/error.h"

namespace billow::arch {
namespace {

constexpr size_t kMaxExperts = 65536;
constexpr size_t kHeadMultiple = 16;

float as_float(double value) { return static_cast<float>(value); }

AttentionStyle read_attention(const Metadata& meta, size_t n_embd, size_t n_heads,
                              size_t n_kv_heads) {
  AttentionStyle attention = {.n_heads = n_heads, .n_kv_heads = n_kv_heads};
  if (n_heads % n_kv_heads != 0)
    meta.refuse("attention.head_count_kv", "does not divide the number of heads");
  attention.k_len = meta.size_or("attention.key_length", n_embd / n_heads, kMaxWidth);
  attention.v_len = meta.size_or("attention.value_length", attention.k_len, kMaxWidth);
  if (attention.k_len == 0 || attention.k_len % kHeadMultiple != 0 ||
      attention.v_len % kHeadMultiple != 0) {
    meta.refuse("attention.key_length", "makes heads of " + std::to_string(attention.k_len) +
                                            " and " + std::to_string(attention.v_len) +
                                            "; multiples of " + std::to_string(kHeadMultiple) +
                                            " are supported");
  }
  if (n_heads * std::max(attention.k_len, attention.v_len) > kMaxWidth)
    meta.refuse("attention.head_count", "makes heads of more than 2^24 values together");
  attention.rope = 0;
  attention.scale = as_float(meta.real_or("attention.scale", 0.0));
  if (attention.scale == 0.0f)
    attention.scale = as_float(1.0 / std::sqrt(static_cast<double>(attention.k_len)));
  attention.clip = as_float(meta.real_or("attention.clamp_kqv", 0.0));
  return attention;
}

// Returns true if any tensor of experts exists. Loading then reports a missing one by name.
bool has_expert_tensors(const Metadata& meta, size_t layer) {
  constexpr std::array<std::string_view, 5> kNames = {
      "ffn_gate_inp", "ffn_up_exps", "ffn_gate_exps", "ffn_gate_up_exps", "ffn_down_exps"};
  return std::ranges::any_of(kNames, [&](std::string_view name) {
    return has_tensor(meta, layer, std::string(name) + ".weight");
  });
}

// Returns the width of the shared expert from any of its matrices; 0: the layer has none.
size_t shared_width(const Metadata& meta, size_t layer) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const auto size = [&](const char* name, size_t dimension) -> uint64_t {
    const gguf::TensorInfo* matrix = meta.file().find_tensor(prefix + name);
    return matrix == nullptr ? 0 : matrix->shape[dimension];
  };
  for (const uint64_t width : {size("ffn_up_shexp.weight", 1), size("ffn_gate_shexp.weight", 1),
                               size("ffn_down_shexp.weight", 0)})
    if (width != 0) return std::min<uint64_t>(width, kMaxWidth);
  return 0;
}

}  // namespace

DecoderStyle read_decoder(const Metadata& meta, const DecoderBasics& basics) {
  DecoderStyle style;
  style.architecture = meta.architecture();
  style.n_vocab = vocabulary_rows(meta.file());
  style.n_embd = meta.size("embedding_length", kMaxWidth);
  style.max_context = meta.size("context_length", kMaxContext);
  style.norm = basics.norm;
  const char* const epsilon = basics.epsilon != nullptr       ? basics.epsilon
                              : basics.norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                              : "attention.layer_norm_epsilon";
  // Ollama's files of Gemma 3 have no epsilon.
  constexpr double kEpsilonOfGemma3 = 1e-6;
  style.norm_epsilon =
      as_float(style.architecture == "gemma3" ? meta.positive_or(epsilon, kEpsilonOfGemma3)
                                              : meta.positive(epsilon));
  const size_t n_blocks = meta.size("block_count", kMaxLayers);
  const size_t n_predicting = meta.count("nextn_predict_layers", kMaxLayers);
  if (n_predicting >= n_blocks)
    meta.refuse("nextn_predict_layers", "is not less than block_count, so that no layer is left");
  style.layers.resize(n_blocks - n_predicting);
  const size_t n = style.layers.size();
  const auto per_layer = [&](const char* name, std::optional<size_t> fallback) {
    const std::vector<size_t> numbers = meta.per_layer(name, n, kMaxWidth, fallback);
    if (!basics.uneven && std::ranges::count(numbers, size_t{0}) != 0 && meta.has(name))
      meta.refuse(name, "is 0, not within 1.." + std::to_string(kMaxWidth));
    return numbers;
  };
  const std::optional<size_t> none = basics.uneven ? std::optional<size_t>(0) : std::nullopt;
  const std::vector<size_t> n_heads = per_layer("attention.head_count", none);
  std::vector<size_t> n_kv_heads = n_heads;
  if (meta.has("attention.head_count_kv")) n_kv_heads = per_layer("attention.head_count_kv", none);
  const bool has_experts = meta.has("expert_feed_forward_length");
  const std::vector<size_t> n_ff =
      per_layer("feed_forward_length", has_experts ? std::optional<size_t>(0) : none);
  size_t k_len = 0;
  for (size_t i = 0; i < n; ++i) {
    LayerStyle& layer = style.layers[i];
    if (n_heads[i] != 0 && n_kv_heads[i] != 0) {
      layer.mixer = read_attention(meta, style.n_embd, n_heads[i], n_kv_heads[i]);
      k_len = attention_of(style, i).k_len;
    }
    if (n_ff[i] == 0 && !basics.uneven && !has_expert_tensors(meta, i)) {
      meta.refuse("feed_forward_length", "is missing, and layer " + std::to_string(i) +
                                             " has no router to experts (ffn_gate_inp)");
    }
    if (n_ff[i] != 0) {
      layer.dense = FeedForwardStyle{
          .n_ff = n_ff[i], .gated = basics.gated, .activation = basics.activation, .xielu = {}};
    }
  }
  if (k_len != 0) style.ropes.push_back(read_rope(meta, basics.rope, k_len, style.max_context));
  return style;
}

AttentionStyle& attention_of(DecoderStyle& style, size_t layer) {
  auto* attention = std::get_if<AttentionStyle>(&style.layers[layer].mixer);
  BILLOW_CHECK(attention != nullptr);
  return *attention;
}

void drop_ropes(DecoderStyle& style) {
  style.ropes.clear();
  for_attention(style, [](size_t, AttentionStyle& attention) { attention.rope.reset(); });
}

bool has_tensor(const Metadata& meta, size_t layer, std::string_view name) {
  const std::string whole = "blk." + std::to_string(layer) + "." + std::string(name);
  return meta.file().find_tensor(whole) != nullptr;
}

void set_qk_norms(DecoderStyle& style, QkNorm norm) {
  for_attention(style, [norm](size_t, AttentionStyle& attention) { attention.qk_norm = norm; });
}

void find_qk_norms(DecoderStyle& style, const Metadata& meta) {
  for_attention(style, [&](size_t i, AttentionStyle& attention) {
    if (has_tensor(meta, i, "attn_q_norm.weight")) attention.qk_norm = QkNorm::kBeforeRope;
  });
}

std::vector<bool> read_window_pattern(const Metadata& meta, size_t n_layers, size_t period) {
  const char* const name = "attention.sliding_window_pattern";
  std::vector<bool> local = meta.flags(name, n_layers);
  if (!local.empty()) return local;
  if (meta.has(name)) period = meta.size(name, kMaxLayers);
  for (size_t i = 0; i < n_layers; ++i) local.push_back(period > 1 && i % period < period - 1);
  return local;
}

void set_windows(DecoderStyle& style, const Metadata& meta, const std::vector<bool>& local,
                 size_t fallback) {
  const size_t window = meta.has("attention.sliding_window")
                            ? meta.count("attention.sliding_window", kMaxContext)
                            : fallback;
  for_attention(style, [&](size_t i, AttentionStyle& attention) {
    if (local[i]) attention.window = std::min(window, style.max_context);
  });
}

void share_kv(DecoderStyle& style, const std::vector<bool>& local, size_t n_own_kv) {
  for_attention(style, [&](size_t i, AttentionStyle& attention) {
    for (size_t from = n_own_kv; i >= n_own_kv && from > 0 && !attention.kv_layer; --from)
      if (local[from - 1] == local[i]) attention.kv_layer = from - 1;
  });
}

void set_experts(DecoderStyle& style, const Metadata& meta, ExpertsStyle experts) {
  experts.n_experts = meta.size("expert_count", kMaxExperts);
  experts.n_used = meta.size("expert_used_count", kMaxExperts);
  if (experts.n_used > experts.n_experts) {
    meta.refuse("expert_used_count", "is " + std::to_string(experts.n_used) + ", more than the " +
                                         std::to_string(experts.n_experts) + " experts");
  }
  const size_t gating = meta.count("expert_gating_func", kMaxExperts);
  if (gating > 3)
    meta.refuse("expert_gating_func", "is " + std::to_string(gating) + "; known are 1 to 3");
  if (gating == 1) experts.gating = Gating::kSoftmax;
  if (gating == 2) experts.gating = Gating::kSigmoid;
  if (gating == 3) experts.gating = Gating::kSoftmaxOfChosen;
  experts.renormalise = meta.flag_or("expert_weights_norm", experts.renormalise);
  const double scale = meta.real_or("expert_weights_scale", 0.0);
  if (scale != 0.0) experts.scale = as_float(scale);
  experts.n_groups = meta.size_or("expert_group_count", 1, kMaxExperts);
  experts.n_groups_used = meta.size_or("expert_group_used_count", 1, kMaxExperts);
  if (experts.n_experts % experts.n_groups != 0)
    meta.refuse("expert_group_count", "does not divide the number of experts");
  if (experts.n_groups > 1 &&
      experts.n_experts / experts.n_groups * experts.n_groups_used < experts.n_used) {
    meta.refuse("expert_group_used_count", "leaves fewer experts than are used");
  }
  const size_t n = style.layers.size();
  const char* const n_ff_key =
      meta.has("expert_feed_forward_length") ? "expert_feed_forward_length" : "feed_forward_length";
  const std::vector<size_t> n_ff = meta.per_layer(n_ff_key, n, kMaxWidth);
  bool found = false;
  for (size_t i = 0; i < n; ++i) {
    if (!has_expert_tensors(meta, i)) continue;
    found = true;
    LayerStyle& layer = style.layers[i];
    layer.experts = experts;
    layer.experts->n_ff = n_ff[i];
    if (n_ff[i] == 0) meta.refuse(n_ff_key, "is 0 for a layer with experts");
    layer.experts->n_ff_shared = shared_width(meta, i);
    if (!experts.adds_dense) layer.dense.reset();
  }
  if (!found) {
    meta.refuse("expert_count", "is " + std::to_string(experts.n_experts) +
                                    ", but no layer has a router to experts (ffn_gate_inp)");
  }
}

void check_layers(const DecoderStyle& style, const std::string& path) {
  for (size_t i = 0; i < style.layers.size(); ++i) {
    const LayerStyle& layer = style.layers[i];
    const bool has_mixer = !std::holds_alternative<std::monostate>(layer.mixer);
    const bool has_feed_forward = layer.dense || layer.experts || layer.channel_mix;
    const auto refuse = [&](const char* what) {
      throw Error(ErrorCode::kInvalidInput, path + ": layer " + std::to_string(i) + " " + what);
    };
    if (!has_mixer && !has_feed_forward)
      refuse("has neither heads of attention nor a feed-forward part");
    if (layer.parallel && !has_mixer) refuse("has no heads of attention");
    if (layer.parallel && !has_feed_forward) refuse("has no feed-forward part");
    if (layer.experts && layer.experts->adds_dense && !layer.dense)
      refuse("has experts, but lacks the dense part that runs in parallel");
  }
}

void drop_unused_rope(DecoderStyle& style, const Metadata& meta) {
  if (!meta.flag_or("rope.scaling.finetuned", true)) drop_ropes(style);
}

void set_scales(DecoderStyle& style, const Metadata& meta) {
  style.embedding_scale = as_float(meta.positive_or("embedding_scale", 1.0));
  style.residual_scale = as_float(meta.positive_or("residual_scale", 1.0));
  style.logit_scale = as_float(1.0 / meta.positive_or("logit_scale", 1.0));
}

void read_pictures(const Metadata& meta, DecoderStyle& style) {
  read_axes(meta, true, style.ropes[0]);
  style.n_deep = meta.count("n_deepstack_layers", style.layers.size());
  // Ollama's older files have the layers of the picture encoder instead.
  const gguf::Array* layers = meta.file().get_array(meta.key("vision.deepstack_visual_indexes"));
  if (layers == nullptr || meta.has("n_deepstack_layers")) return;
  if (layers->n > style.layers.size())
    meta.refuse("vision.deepstack_visual_indexes", "has more elements than the model has layers");
  style.n_deep = layers->n;
}

}  // namespace billow::arch

#include "arch/vision/style.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace billow::arch {

namespace {

// Files of Qwen2-VL have 0 or the width of the text model as the length of the feed-forward part.
// The tensor has the length.
size_t feed_forward_length(const Metadata& meta, size_t n_embd) {
  constexpr std::string_view kKey = "vision.feed_forward_length";
  const gguf::TensorInfo* up = meta.file().find_tensor("v.blk.0.ffn_up.weight");
  const bool is_qwen2 = meta.file().get_string("clip.projector_type") == "qwen2vl_merger";
  const bool is_wrong = is_qwen2 || (meta.has(kKey) && meta.count(kKey, kMaxWidth) == 0);
  if (is_wrong && up != nullptr)
    return std::clamp<size_t>(up->shape[up->shape[0] == n_embd ? 1 : 0], 1, kMaxWidth);
  return meta.size(kKey, kMaxWidth);
}

struct NamedPart {
  std::string_view name;
  bool is_used;
};

bool uses_layer_part(const PictureStyle& style, std::string_view part) {
  const std::array parts = {NamedPart{"ln1", true},
                            NamedPart{"attn_q", true},
                            NamedPart{"attn_k", true},
                            NamedPart{"attn_v", true},
                            NamedPart{"attn_qkv", true},
                            NamedPart{"attn_out", true},
                            NamedPart{"attn_q_norm", style.qk_norm},
                            NamedPart{"attn_k_norm", style.qk_norm},
                            NamedPart{style.ffn_norm, true},
                            NamedPart{"ffn_gate", style.gated},
                            NamedPart{"ffn_up", true},
                            NamedPart{"ffn_down", true},
                            NamedPart{"attn_post_norm", style.result_norms},
                            NamedPart{"ffn_post_norm", style.result_norms},
                            NamedPart{"ls1", style.layer_scales},
                            NamedPart{"ls2", style.layer_scales}};
  return std::ranges::any_of(
      parts, [part](const NamedPart& row) { return row.is_used && row.name == part; });
}

// Cuts off the part before the first dot and returns it.
std::string_view take_part(std::string_view& name) {
  const size_t n = std::min(name.find('.'), name.size());
  const std::string_view part = name.substr(0, n);
  name.remove_prefix(std::min(n + 1, name.size()));
  return part;
}

// Returns the index of a layer, or an index of no layer if the text is not a number.
size_t index_of(std::string_view text) {
  size_t index = kMaxLayers;
  std::from_chars(text.data(), text.data() + text.size(), index);
  return index;
}

}  // namespace

bool uses_tensor(const PictureStyle& style, std::string_view name) {
  if (take_part(name) != "v") return true;
  if (name == "patch_embd.weight.1") return style.two_frames;
  const std::string_view part = take_part(name);
  if (part == "blk")
    return index_of(take_part(name)) < style.n_layers && uses_layer_part(style, take_part(name));
  if (part == "deepstack")
    return std::ranges::find(style.deep_layers, index_of(take_part(name))) !=
           style.deep_layers.end();
  const std::array parts = {
      NamedPart{"patch_embd", true},
      NamedPart{"position_embd", style.positions != PositionKind::kNone},
      NamedPart{"class_embd", style.class_row != ClassRow::kNone},
      NamedPart{"pre_ln", style.pre_norm},
      NamedPart{"post_ln", style.projector.norm == "v.post_ln"},
      NamedPart{"std_bias", style.projector.standardises},
      NamedPart{"std_scale", style.projector.standardises},
      NamedPart{"token_embd", true}};  // of words that the text has around pictures
  return std::ranges::any_of(
      parts, [part](const NamedPart& row) { return row.is_used && row.name == part; });
}

PictureStyle read_picture_style(const Metadata& meta, nn::Activation gelu) {
  PictureStyle style;
  style.n_embd = meta.size("vision.embedding_length", kMaxWidth);
  style.n_ff = feed_forward_length(meta, style.n_embd);
  style.n_layers = meta.size("vision.block_count", kMaxLayers);
  style.n_heads = meta.size("vision.attention.head_count", kMaxWidth);
  style.head_len = style.n_embd / style.n_heads;
  constexpr size_t kLenMultiple = 8;
  if (style.n_embd % style.n_heads != 0 || style.head_len % kLenMultiple != 0) {
    meta.refuse("vision.attention.head_count",
                "is " + std::to_string(style.n_heads) + ", but each head of the " +
                    std::to_string(style.n_embd) + " values must have a multiple of 8");
  }
  style.norm_epsilon = static_cast<float>(meta.positive("vision.attention.layer_norm_epsilon"));
  if (meta.flag_or("use_silu", false))
    style.activation = nn::Activation::kSilu;
  else if (meta.flag_or("use_gelu", false))
    style.activation = gelu;
  style.biases = style.qkv_biases = style.patch_bias = true;
  style.attention_scale = 1.0f / std::sqrt(static_cast<float>(style.head_len));
  return style;
}

void set_plain(PictureStyle& style) {
  style.norm = NormKind::kRms;
  style.biases = style.qkv_biases = style.patch_bias = false;
}

}  // namespace billow::arch

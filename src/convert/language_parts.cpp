#include "convert/language_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace billow::convert {
namespace {

// If a layer has the first part, it needs the second part. "|" separates alternatives.
struct Need {
  std::string_view of;
  std::string_view needed;
};
constexpr Need kNeeds[] = {
    {"attn_q.weight", "attn_output.weight"},
    {"attn_q_a.weight", "attn_q_b.weight"},
    {"attn_k.weight", "attn_q.weight"},
    {"attn_qkv.weight", "attn_output.weight|ssm_out.weight"},
    {"attn_k_b.weight", "attn_output.weight"},
    {"ffn_gate.weight", "ffn_up.weight"},
    {"ffn_up.weight", "ffn_down.weight"},
    {"ffn_down.weight", "ffn_up.weight"},
    {"ffn_gate_exps.weight", "ffn_up_exps.weight"},
    {"ffn_up_exps.weight", "ffn_down_exps.weight"},
    {"ffn_down_exps.weight", "ffn_gate_inp.weight"},
    {"ffn_gate_inp.weight", "ffn_down_exps.weight"},
    {"ffn_up_shexp.weight", "ffn_down_shexp.weight"},
    {"ssm_in.weight", "ssm_out.weight"},
    {"ssm_conv1d.weight", "ssm_a"},
    {"shortconv.in_proj.weight", "shortconv.out_proj.weight"},
};
// If any layer has both parts, each layer with the first part needs the second part.
constexpr Need kNorms[] = {
    {"attn_output.weight", "attn_norm.weight"},
    {"attn_output.weight", "post_attention_norm.weight"},
    {"ssm_out.weight", "attn_norm.weight"},
    {"ffn_down.weight", "ffn_norm.weight"},
    {"ffn_down.weight", "post_ffw_norm.weight"},
};

[[noreturn]] void missing(const std::string& name) {
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("the tensor that becomes '{}' is missing", name));
}

// Tensors with a dimension that equals the model's width: their row length or their number of rows.
constexpr std::string_view kReads[] = {"token_embd",  "output",       "attn_norm",     "ffn_norm",
                                       "output_norm", "attn_q",       "attn_k",        "attn_v",
                                       "attn_qkv",    "attn_q_a",     "attn_kv_a_mqa", "ffn_gate",
                                       "ffn_up",      "ffn_gate_inp", "ffn_up_shexp",  "ssm_in"};
constexpr std::string_view kWrites[] = {"attn_output", "ffn_down", "ffn_down_shexp", "ssm_out"};

// Returns the name without "blk.7." and ".weight". Returns an empty name if the tensor is not a
// weight.
std::string_view part_of(std::string_view name) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.ends_with(kWeight)) return {};
  name.remove_suffix(kWeight.size());
  if (name.starts_with("blk.")) name.remove_prefix(name.find('.', 4) + 1);
  return name;
}

void check_width(const PlannedTensor& tensor, uint64_t n_embd) {
  const std::string_view part = part_of(tensor.name);
  const bool reads = std::ranges::find(kReads, part) != std::end(kReads);
  const bool writes = std::ranges::find(kWrites, part) != std::end(kWrites);
  if (!reads && !writes) return;
  const size_t of = reads ? 0 : 1;
  if (tensor.shape.size() > of && tensor.shape[of] == n_embd) return;
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("the tensor that becomes '{}' is not as wide as the model, {}",
                          tensor.name, n_embd));
}

}  // namespace

void check_language_parts(std::span<const PlannedTensor> tensors, uint32_t n_layers,
                          uint64_t n_embd) {
  for (const PlannedTensor& tensor : tensors) check_width(tensor, n_embd);
  std::set<std::string, std::less<>> names;
  for (const PlannedTensor& tensor : tensors) names.insert(tensor.name);
  if (!names.contains("token_embd.weight")) missing("token_embd.weight");
  const auto in_layer = [](uint32_t layer, std::string_view part) {
    return fmt::format("blk.{}.{}", layer, part);
  };
  const auto is_of = [&](uint32_t layer, std::string_view part) {
    return names.contains(in_layer(layer, part));
  };
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    const std::string prefix = in_layer(layer, "");
    const auto begin = names.lower_bound(prefix);
    if (begin == names.end() || !begin->starts_with(prefix)) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("there is no tensor of layer {}, but config.json says that there are "
                              "{} layers",
                              layer, n_layers));
    }
    for (const auto& [of, needed] : kNeeds) {
      const std::string_view first = needed.substr(0, needed.find('|'));
      const std::string_view other = needed.substr(std::min(first.size() + 1, needed.size()));
      if (!is_of(layer, of) || is_of(layer, first)) continue;
      if (other.empty() || !is_of(layer, other)) missing(in_layer(layer, first));
    }
  }
  for (const auto& [of, norm] : kNorms) {
    uint32_t n_with = 0;
    uint32_t without = n_layers;
    for (uint32_t layer = 0; layer < n_layers; ++layer) {
      if (!is_of(layer, of)) continue;
      if (is_of(layer, norm)) ++n_with;
      if (!is_of(layer, norm)) without = layer;
    }
    if (n_with > 0 && without < n_layers) missing(in_layer(without, norm));
  }
  const bool has_norms = is_of(0, "attn_norm.weight");
  if (has_norms && !names.contains("output_norm.weight") &&
      !names.contains("token_embd_norm.weight"))
    missing("output_norm.weight");
}

}  // namespace billow::convert

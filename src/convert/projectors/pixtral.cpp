// Pixtral, Mistral Small 3 and Ministral 3. Rows of Q and K are paired, as in a Llama's text part.
#include <algorithm>

#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"Mistral3ForConditionalGeneration",
                                         "LlavaForConditionalGeneration"};

void pair_heads(Shaping& shaping) { shaping.pair(shaping.config().head_len()); }

constexpr TensorRule kNames[] = {
    {"vision_tower.patch_conv", "v.patch_embd"},
    {"vision_tower.ln_pre", "v.pre_ln"},
    {"vision_tower.transformer.layers.#.attention_norm", "v.blk.#.ln1"},
    {"vision_tower.transformer.layers.#.ffn_norm", "v.blk.#.ln2"},
    {"vision_tower.transformer.layers.#.attention.q_proj", "v.blk.#.attn_q", pair_heads},
    {"vision_tower.transformer.layers.#.attention.k_proj", "v.blk.#.attn_k", pair_heads},
    {"vision_tower.transformer.layers.#.attention.v_proj", "v.blk.#.attn_v"},
    {"vision_tower.transformer.layers.#.attention.o_proj", "v.blk.#.attn_out"},
    {"vision_tower.transformer.layers.#.feed_forward.gate_proj", "v.blk.#.ffn_gate"},
    {"vision_tower.transformer.layers.#.feed_forward.up_proj", "v.blk.#.ffn_up"},
    {"vision_tower.transformer.layers.#.feed_forward.down_proj", "v.blk.#.ffn_down"},
    {"multi_modal_projector.norm", "mm.input_norm"},
    {"multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger"},
    {"multi_modal_projector.linear_1", "mm.1"},
    {"multi_modal_projector.linear_2", "mm.2"},
};

// Pixtral has the class of another family, with other defaults.
bool is_llava(const ProjectorModel& model) {
  return model.whole.class_name() == "LlavaForConditionalGeneration";
}

ProjectorSizes sizes(const ProjectorModel& model) {
  const ModelConfig& vision = model.vision;
  ProjectorSizes sizes = standard_sizes(vision);
  // The processor's limit, but not more than the encoder has rotations for.
  if (const auto longest = size_of(model.processor, "longest_edge"); longest && *longest > 0)
    sizes.image_size = std::min(sizes.image_size, *longest);
  sizes.merge = merge_of(model.whole, "spatial_merge_size", is_llava(model) ? 1 : 2);
  return sizes;
}

void keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  const ModelConfig& vision = model.vision;
  if (const auto base = vision.rope_number("rope_theta"); base && *base != 10000.0)
    vision.refuse("rope_theta", "must be 10000; other values are not supported");
  require_same(vision, "head_dim", sizes.n_embd / sizes.n_heads);
  require_same(model.whole, "projector_hidden_act", "gelu");
  require_same(model.whole, "vision_feature_layer", -1);
  if (is_llava(model) && !model.whole.has("vision_feature_layer"))
    model.whole.refuse("vision_feature_layer", "is missing; it must be -1");
  keys.flag(vision.text({"hidden_act"}) == "silu" ? "use_silu" : "use_gelu", true);
  write_limit(keys, "vision.spatial_merge_size", sizes.merge, 1);
}

}  // namespace

const ProjectorFamily kPixtralProjector = {
    .classes = kClasses,
    .projector = "pixtral",
    .rules = {kNames},
    .sizes = sizes,
    .keys = keys,
    .output = "mm.2.weight",
    .defaults = R"({"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                    "num_attention_heads": 16, "image_size": 1024, "patch_size": 16,
                    "hidden_act": "gelu", "layer_norm_eps": 1e-5})",
    .activations = "gelu silu",
    .vision_type = "pixtral",
    .has_break = true};

}  // namespace billow::convert

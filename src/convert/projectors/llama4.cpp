// Llama 4.
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"Llama4ForConditionalGeneration"};

constexpr TensorRule kNames[] = {
    {"vision_tower.class_embedding", "v.class_embd"},
    {"vision_tower.positional_embedding_vlm", "v.position_embd.weight"},
    {"vision_tower.patch_embedding.linear", "v.patch_embd"},
    {"vision_tower.layernorm_pre", "v.pre_ln"},
    {"vision_tower.layernorm_post", "v.post_ln"},
    {"vision_tower.model.layers.#.input_layernorm", "v.blk.#.ln1"},
    {"vision_tower.model.layers.#.post_attention_layernorm", "v.blk.#.ln2"},
    {"vision_tower.model.layers.#.self_attn.q_proj", "v.blk.#.attn_q"},
    {"vision_tower.model.layers.#.self_attn.k_proj", "v.blk.#.attn_k"},
    {"vision_tower.model.layers.#.self_attn.v_proj", "v.blk.#.attn_v"},
    {"vision_tower.model.layers.#.self_attn.o_proj", "v.blk.#.attn_out"},
    {"vision_tower.model.layers.#.mlp.fc1", "v.blk.#.ffn_up"},
    {"vision_tower.model.layers.#.mlp.fc2", "v.blk.#.ffn_down"},
    {"vision_tower.vision_adapter.mlp.fc1", "mm.model.mlp.1"},
    {"vision_tower.vision_adapter.mlp.fc2", "mm.model.mlp.2"},
    {"multi_modal_projector.linear_1", "mm.model.fc"},
};

ProjectorSizes sizes(const ProjectorModel& model) {
  const ModelConfig& vision = model.vision;
  return {.image_size = require_square(vision, "image_size"),
          .patch_size = require_square(vision, "patch_size"),
          .n_embd = vision.n_embd(),
          .n_ff = vision.require_size({"intermediate_size"}),
          .n_layers = vision.n_layers(),
          .n_heads = vision.n_heads(),
          .merge = require_inverse(vision, "pixel_shuffle_ratio"),
          .norm_epsilon = vision.require_number({"norm_eps"})};
}

void keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  constexpr uint32_t kUsualTiles = 16;
  const ModelConfig& vision = model.vision;
  if (const auto base = vision.rope_number("rope_theta"); base && *base != 10000.0)
    vision.refuse("rope_theta", "must be 10000; other values are not supported");
  require_same(vision, "vision_feature_select_strategy", "default");
  require_flag(vision, "multi_modal_projector_bias", false);
  keys.count("vision.projector.scale_factor", sizes.merge);
  keys.flag("use_gelu", true);
  require_image_size(model, sizes);
  require_flag(model.processor, "resize_to_max_canvas", false);
  write_limit(keys, "vision.preproc_max_tiles", model.processor.count({"max_patches"}),
              kUsualTiles);
}

}  // namespace

const ProjectorFamily kLlama4Projector = {
    .classes = kClasses,
    .projector = "llama4",
    .rules = {kNames},
    .sizes = sizes,
    .keys = keys,
    .output = "mm.model.fc.weight",
    .defaults = R"({"hidden_size": 768, "intermediate_size": 5632, "num_hidden_layers": 34,
                    "num_attention_heads": 16, "image_size": 448, "patch_size": 14,
                    "norm_eps": 1e-5, "pixel_shuffle_ratio": 0.5})",
    .activations = "gelu",
    .resample = 2};

}  // namespace billow::convert

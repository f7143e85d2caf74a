// Gemma 4 with a picture encoder. The models without one (gemma4uv) and sounds are not converted.
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"Gemma4ForConditionalGeneration"};

// The weights of a product are below "linear"; the limits around it are not.
constexpr TensorRule kNames[] = {
    {"vision_tower.patch_embedder.input_proj.weight", "v.patch_embd.weight", as_patches},
    {"vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"},
    {"vision_tower.encoder.layers.#.input_layernorm", "v.blk.#.ln1"},
    {"vision_tower.encoder.layers.#.post_attention_layernorm", "v.blk.#.attn_post_norm"},
    {"vision_tower.encoder.layers.#.pre_feedforward_layernorm", "v.blk.#.ln2"},
    {"vision_tower.encoder.layers.#.post_feedforward_layernorm", "v.blk.#.ffn_post_norm"},
    {"vision_tower.encoder.layers.#.self_attn.q_norm", "v.blk.#.attn_q_norm"},
    {"vision_tower.encoder.layers.#.self_attn.k_norm", "v.blk.#.attn_k_norm"},
    {"vision_tower.encoder.layers.#.self_attn.q_proj", "v.blk.#.attn_q"},
    {"vision_tower.encoder.layers.#.self_attn.k_proj", "v.blk.#.attn_k"},
    {"vision_tower.encoder.layers.#.self_attn.v_proj", "v.blk.#.attn_v"},
    {"vision_tower.encoder.layers.#.self_attn.o_proj", "v.blk.#.attn_out"},
    {"vision_tower.encoder.layers.#.mlp.gate_proj", "v.blk.#.ffn_gate"},
    {"vision_tower.encoder.layers.#.mlp.up_proj", "v.blk.#.ffn_up"},
    {"vision_tower.encoder.layers.#.mlp.down_proj", "v.blk.#.ffn_down"},
    {"vision_tower.std_bias", "v.std_bias"},
    {"vision_tower.std_scale", "v.std_scale"},
    {"embed_vision.embedding_projection", "mm.input_projection"},
};

std::string without_linear(const ProjectorModel& /*model*/, std::string name) {
  constexpr std::string_view kLinear = ".linear.weight";
  if (name.ends_with(kLinear))
    name.replace(name.size() - kLinear.size(), kLinear.size(), ".weight");
  return name;
}

ProjectorSizes sizes(const ProjectorModel& model) {
  constexpr uint32_t kNoSize = 224;  // readers need a size, but pictures may have any size
  const ModelConfig& vision = model.vision;
  return {.image_size = kNoSize,
          .patch_size = require_square(vision, "patch_size"),
          .n_embd = vision.n_embd(),
          .n_ff = vision.require_size({"intermediate_size"}),
          .n_layers = vision.n_layers(),
          .n_heads = vision.n_heads(),
          .merge = merge_of(vision, "pooling_kernel_size", 3),
          .norm_epsilon = vision.require_number({"rms_norm_eps"})};
}

void keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  constexpr uint32_t kUsualMerge = 3;
  constexpr uint64_t kUsualTokens = 280;
  const ModelConfig& vision = model.vision;
  if (const auto base = vision.rope_number("rope_theta"); base && *base != 100.0)
    vision.refuse("rope_theta", "must be 100; other values are not supported");
  require_same(vision, "num_key_value_heads", sizes.n_heads);
  require_same(vision, "head_dim", sizes.n_embd / sizes.n_heads);
  require_flag(vision, "attention_bias", false);
  require_same(model.processor, "patch_size", sizes.patch_size);
  require_same(model.processor, "pooling_kernel_size", sizes.merge);
  write_limit(keys, "vision.projector.scale_factor", sizes.merge, kUsualMerge);
  const uint64_t side = uint64_t{sizes.patch_size} * sizes.merge;
  write_limit(keys, "vision.image_max_pixels",
              pixels_of_tokens(model.processor, "max_soft_tokens", side),
              kUsualTokens * side * side);
}

}  // namespace

const ProjectorFamily kGemma4Projector = {
    .classes = kClasses,
    .projector = "gemma4v",
    .rules = {kNames},
    .sizes = sizes,
    .keys = keys,
    .output = "mm.input_projection.weight",
    .defaults = R"({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
                    "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64,
                    "rms_norm_eps": 1e-6, "pooling_kernel_size": 3, "patch_size": 16})",
    .type_key = "vision.projector_type",
    .rename = without_linear};

}  // namespace billow::convert

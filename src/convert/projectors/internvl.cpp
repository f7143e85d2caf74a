// InternVL 2.5, 3 and 3.5, in the form of their authors and in that of Hugging Face's library.
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"InternVLForConditionalGeneration", "InternVLChatModel"};

constexpr TensorRule kNames[] = {
    {"vision_tower.embeddings.cls_token", "v.class_embd"},
    {"vision_tower.embeddings.position_embeddings", "v.position_embd.weight"},
    {"vision_tower.embeddings.patch_embeddings.projection", "v.patch_embd"},
    {"vision_tower.encoder.layer.#.attention.q_proj", "v.blk.#.attn_q"},
    {"vision_tower.encoder.layer.#.attention.k_proj", "v.blk.#.attn_k"},
    {"vision_tower.encoder.layer.#.attention.v_proj", "v.blk.#.attn_v"},
    {"vision_tower.encoder.layer.#.attention.q_norm", "v.blk.#.attn_q_norm"},
    {"vision_tower.encoder.layer.#.attention.k_norm", "v.blk.#.attn_k_norm"},
    {"vision_tower.encoder.layer.#.attention.projection_layer", "v.blk.#.attn_out"},
    {"vision_tower.encoder.layer.#.lambda_1", "v.blk.#.ls1.weight"},
    {"vision_tower.encoder.layer.#.lambda_2", "v.blk.#.ls2.weight"},
    {"vision_tower.encoder.layer.#.layernorm_before", "v.blk.#.ln1"},
    {"vision_tower.encoder.layer.#.layernorm_after", "v.blk.#.ln2"},
    {"vision_tower.encoder.layer.#.mlp.fc1", "v.blk.#.ffn_up"},
    {"vision_tower.encoder.layer.#.mlp.fc2", "v.blk.#.ffn_down"},
    {"multi_modal_projector.layer_norm", "mm.model.mlp.0"},
    {"multi_modal_projector.linear_1", "mm.model.mlp.1"},
    {"multi_modal_projector.linear_2", "mm.model.mlp.3"},
};
constexpr TensorRule kAuthorsNames[] = {
    {"vision_tower.embeddings.class_embedding", "v.class_embd"},
    {"vision_tower.embeddings.position_embedding", "v.position_embd.weight"},
    {"vision_tower.embeddings.patch_embedding", "v.patch_embd"},
    {"vision_tower.encoder.layers.#.attn.qkv", "v.blk.#.attn_q", first_third},
    {"vision_tower.encoder.layers.#.attn.qkv", "v.blk.#.attn_k", second_third},
    {"vision_tower.encoder.layers.#.attn.qkv", "v.blk.#.attn_v", last_third},
    {"vision_tower.encoder.layers.#.attn.q_norm", "v.blk.#.attn_q_norm"},
    {"vision_tower.encoder.layers.#.attn.k_norm", "v.blk.#.attn_k_norm"},
    {"vision_tower.encoder.layers.#.attn.proj", "v.blk.#.attn_out"},
    {"vision_tower.encoder.layers.#.ls1", "v.blk.#.ls1.weight"},
    {"vision_tower.encoder.layers.#.ls2", "v.blk.#.ls2.weight"},
    {"vision_tower.encoder.layers.#.norm1", "v.blk.#.ln1"},
    {"vision_tower.encoder.layers.#.norm2", "v.blk.#.ln2"},
    {"vision_tower.encoder.layers.#.mlp.fc1", "v.blk.#.ffn_up"},
    {"vision_tower.encoder.layers.#.mlp.fc2", "v.blk.#.ffn_down"},
    {"mlp1.#", "mm.model.mlp.#"},
};

ProjectorSizes sizes(const ProjectorModel& model) {
  ProjectorSizes sizes = standard_sizes(model.vision);
  sizes.merge =
      model.whole.has("downsample_ratio") ? require_inverse(model.whole, "downsample_ratio") : 2;
  return sizes;
}

void keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  keys.flag("use_gelu", true);
  keys.count("vision.projector.scale_factor", sizes.merge);
  require_same(model.whole, "projector_hidden_act", "gelu");
  require_same(model.whole, "vision_feature_layer", -1);
  require_same(model.whole, "select_layer", -1);
  require_same(model.whole, "vision_feature_select_strategy", "default");
  require_same(model.whole, "ps_version", "v2");
  require_same(model.whole, "force_image_size", sizes.image_size);
  require_image_size(model, sizes);
  require_flag(model.whole, "use_thumbnail", true);
  require_flag(model.whole, "dynamic_image_size", true);
  // The authors write the number of tiles into config.json. The library has it in another file.
  const auto write = [&](const char* key, const char* of_model, const char* of_processor,
                         uint32_t otherwise) {
    if (const auto n = model.whole.count({of_model}); n && *n > 0) return keys.count(key, *n);
    write_limit(keys, key, model.processor.count({of_processor}), otherwise);
  };
  write("vision.preproc_min_tiles", "min_dynamic_patch", "min_patches", 1);
  write("vision.preproc_max_tiles", "max_dynamic_patch", "max_patches", 12);
}

}  // namespace

const ProjectorFamily kInternVlProjector = {
    .classes = kClasses,
    .projector = "internvl",
    .rules = {kNames, kAuthorsNames},
    .sizes = sizes,
    .keys = keys,
    .output = "mm.model.mlp.3.weight",
    .defaults = R"({"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                    "num_attention_heads": 16, "image_size": 448, "patch_size": 14,
                    "layer_norm_eps": 1e-6})",
    .activations = "gelu"};

}  // namespace billow::convert

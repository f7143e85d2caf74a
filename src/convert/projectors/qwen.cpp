// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr std::string_view kQwen2VlClasses[] = {"Qwen2VLForConditionalGeneration"};
constexpr std::string_view kQwen25VlClasses[] = {"Qwen2_5_VLForConditionalGeneration"};
constexpr std::string_view kQwen3VlClasses[] = {"Qwen3VLForConditionalGeneration",
                                                "Qwen3VLMoeForConditionalGeneration"};
constexpr std::string_view kQwen35Classes[] = {"Qwen3_5ForConditionalGeneration",
                                               "Qwen3_5MoeForConditionalGeneration"};

// The epsilon of all norms. It is a constant in Hugging Face's library.
constexpr double kEpsilon = 1e-6;

// The embedding of patches has two frames, [n][3][2][p][p]. Each frame becomes a tensor.
void frame(Shaping& shaping, uint64_t index) {
  const std::vector<uint64_t> shape = shaping.shape();
  if (shape.size() != 5 || shape[1] != 3 || shape[2] != 2)
    shaping.refuse("does not have the dimensions for two frames of three colors");
  shaping.select(shape[0] * 3, index * shape[3], shape[3]);
  shaping.reshape({shape[0], 3, shape[3], shape[4]});
}
void first_frame(Shaping& shaping) { frame(shaping, 0); }
void second_frame(Shaping& shaping) { frame(shaping, 1); }

constexpr TensorRule kNames[] = {
    {"visual.patch_embed.proj.weight", "v.patch_embd.weight", first_frame},
    {"visual.patch_embed.proj.weight", "v.patch_embd.weight.1", second_frame},
    {"visual.patch_embed.proj.bias", "v.patch_embd.bias"},
    {"visual.pos_embed", "v.position_embd"},
    {"visual.blocks.#.norm1", "v.blk.#.ln1"},
    {"visual.blocks.#.norm2", "v.blk.#.ln2"},
    {"visual.blocks.#.attn.proj", "v.blk.#.attn_out"},
    {"visual.blocks.#.mlp.fc1", "v.blk.#.ffn_up"},
    {"visual.blocks.#.mlp.fc2", "v.blk.#.ffn_down"},
    {"visual.blocks.#.mlp.linear_fc1", "v.blk.#.ffn_up"},
    {"visual.blocks.#.mlp.linear_fc2", "v.blk.#.ffn_down"},
    {"visual.blocks.#.mlp.gate_proj", "v.blk.#.ffn_gate"},
    {"visual.blocks.#.mlp.up_proj", "v.blk.#.ffn_up"},
    {"visual.blocks.#.mlp.down_proj", "v.blk.#.ffn_down"},
    {"visual.merger.ln_q", "v.post_ln"},
    {"visual.merger.norm", "v.post_ln"},
    {"visual.merger.mlp.#", "mm.#"},
    {"visual.merger.linear_fc1", "mm.0"},
    {"visual.merger.linear_fc2", "mm.2"},
    {"visual.deepstack_merger_list.#.norm", "v.deepstack.#.norm"},
    {"visual.deepstack_merger_list.#.linear_fc1", "v.deepstack.#.fc1"},
    {"visual.deepstack_merger_list.#.linear_fc2", "v.deepstack.#.fc2"},
};
constexpr TensorRule kSplitNames[] = {
    {"visual.blocks.#.attn.qkv", "v.blk.#.attn_q", first_third},
    {"visual.blocks.#.attn.qkv", "v.blk.#.attn_k", second_third},
    {"visual.blocks.#.attn.qkv", "v.blk.#.attn_v", last_third},
};
constexpr TensorRule kJointNames[] = {{"visual.blocks.#.attn.qkv", "v.blk.#.attn_qkv"}};

// Readers of the older families assume this size. Pictures may have any size.
uint32_t image_size(const ModelConfig& vision) {
  constexpr uint32_t kUsualSize = 560;
  return vision.has("image_size") ? require_square(vision, "image_size") : kUsualSize;
}

ProjectorSizes qwen2_sizes(const ProjectorModel& model) {
  const ModelConfig& vision = model.vision;
  const uint32_t n_embd = vision.require_size({"embed_dim"});
  const double ratio = vision.require_number({"mlp_ratio"});
  if (!(ratio > 0) || ratio > 64) vision.refuse("mlp_ratio", "must be from 0 to 64");
  return {.image_size = image_size(vision),
          .patch_size = require_square(vision, "patch_size"),
          .n_embd = n_embd,
          .n_ff = static_cast<uint32_t>(std::lround(n_embd * vision.require_number({"mlp_ratio"}))),
          .n_layers = vision.require_size({"depth"}),
          .n_heads = vision.require_size({"num_heads"}),
          .merge = merge_of(vision, "spatial_merge_size", 2),
          .norm_epsilon = kEpsilon};
}

ProjectorSizes qwen25_sizes(const ProjectorModel& model) {
  const ModelConfig& vision = model.vision;
  return {.image_size = image_size(vision),
          .patch_size = require_square(vision, "patch_size"),
          .n_embd = vision.n_embd(),
          .n_ff = vision.require_size({"intermediate_size"}),
          .n_layers = vision.require_size({"depth"}),
          .n_heads = vision.require_size({"num_heads"}),
          .merge = merge_of(vision, "spatial_merge_size", 2),
          .norm_epsilon = kEpsilon};
}

ProjectorSizes qwen3_sizes(const ProjectorModel& model) {
  ProjectorSizes sizes = qwen25_sizes(model);
  sizes.image_size = require_root(model.vision, "num_position_embeddings") * sizes.patch_size;
  return sizes;
}

// Writes the limits of the area of a picture, if they are not those that readers assume.
void write_pixel_limits(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys,
                        uint64_t min_tokens) {
  constexpr uint64_t kMaxTokens = 4096;
  const ModelConfig& processor = model.processor;
  require_same(model.vision, "temporal_patch_size", 2);
  require_same(processor, "temporal_patch_size", 2);
  require_same(processor, "patch_size", sizes.patch_size);
  require_same(processor, "merge_size", sizes.merge);
  const auto limit = [&](const char* name, const char* of_size) -> std::optional<uint64_t> {
    if (const auto direct = processor.count({name})) return direct;
    return size_of(processor, of_size);
  };
  const uint64_t side = uint64_t{sizes.patch_size} * sizes.merge;
  write_limit(keys, "vision.image_min_pixels", limit("min_pixels", "shortest_edge"),
              min_tokens * side * side);
  // The published models allow more than any reader uses by default.
  const uint64_t usual = kMaxTokens * side * side;
  const auto max = limit("max_pixels", "longest_edge");
  if (max && *max < usual) keys.count("vision.image_max_pixels", *max);
}

void qwen2_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  write_limit(keys, "vision.spatial_merge_size", sizes.merge, 2);
  write_pixel_limits(model, sizes, keys, 4);
}

void qwen25_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  require_same(model.vision, "window_size", 112);
  keys.flag("use_silu", true);
  const auto full = model.vision.counts("fullatt_block_indexes");
  if (!full || full->empty() || full->front() >= sizes.n_layers)
    model.vision.refuse("fullatt_block_indexes", "must be a list of layers");
  const uint32_t period = full->front() + 1;
  for (size_t i = 0; i < sizes.n_layers / period || i < full->size(); ++i)
    if (i >= full->size() || (*full)[i] != period * (i + 1) - 1)
      model.vision.refuse("fullatt_block_indexes", "must be every n-th layer");
  keys.count("vision.n_wa_pattern", period);
  qwen2_keys(model, sizes, keys);
}

void qwen3_keys(const ProjectorModel& model, const ProjectorSizes& sizes, KeyWriter& keys) {
  keys.flag("use_gelu", true);
  keys.count("vision.spatial_merge_size", sizes.merge);
  std::vector<bool> is_deep(sizes.n_layers);
  for (const uint32_t layer :
       model.vision.counts("deepstack_visual_indexes").value_or(std::vector<uint32_t>())) {
    if (layer >= sizes.n_layers)
      model.vision.refuse("deepstack_visual_indexes", "must be a list of layers");
    is_deep[layer] = true;
  }
  keys.flags("vision.is_deepstack_layers", is_deep);
  write_pixel_limits(model, sizes, keys, 64);
}

// Numbers the projectors of layers by their layer.
std::string by_layer(const ProjectorModel& model, std::string name) {
  constexpr std::string_view kList = "visual.deepstack_merger_list.";
  if (!name.starts_with(kList)) return name;
  const size_t end = name.find('.', kList.size());
  const TensorName parsed = parse_tensor_name(name);
  const auto layers = model.vision.counts("deepstack_visual_indexes");
  if (end == std::string::npos || !parsed.layer || !layers || *parsed.layer >= layers->size())
    return name;
  return fmt::format("{}{}{}", kList, (*layers)[*parsed.layer], name.substr(end));
}

}  // namespace

const ProjectorFamily kQwen2VlProjector = {
    .classes = kQwen2VlClasses,
    .projector = "qwen2vl_merger",
    .rules = {kSplitNames, kNames},
    .sizes = qwen2_sizes,
    .keys = qwen2_keys,
    .output = "mm.2.weight",
    .defaults = R"({"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16,
                    "patch_size": 14, "spatial_merge_size": 2})",
    .activations = "quick_gelu"};
const ProjectorFamily kQwen25VlProjector = {
    .classes = kQwen25VlClasses,
    .projector = "qwen2.5vl_merger",
    .rules = {kSplitNames, kNames},
    .sizes = qwen25_sizes,
    .keys = qwen25_keys,
    .output = "mm.2.weight",
    .defaults = R"({"depth": 32, "hidden_size": 3584, "intermediate_size": 3420, "num_heads": 16,
                    "patch_size": 14, "spatial_merge_size": 2,
                    "fullatt_block_indexes": [7, 15, 23, 31]})",
    .activations = "silu"};
const ProjectorFamily kQwen3VlProjector = {
    .classes = kQwen3VlClasses,
    .projector = "qwen3vl_merger",
    .rules = {kJointNames, kNames},
    .sizes = qwen3_sizes,
    .keys = qwen3_keys,
    .output = "mm.2.weight",
    .defaults = R"({"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
                    "patch_size": 16, "spatial_merge_size": 2, "num_position_embeddings": 2304,
                    "deepstack_visual_indexes": [8, 16, 24]})",
    .rename = by_layer};
const ProjectorFamily kQwen35Projector = {
    .classes = kQwen35Classes,
    .projector = "qwen3vl_merger",
    .rules = {kJointNames, kNames},
    .sizes = qwen3_sizes,
    .keys = qwen3_keys,
    .output = "mm.2.weight",
    .defaults = R"({"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
                    "patch_size": 16, "spatial_merge_size": 2, "num_position_embeddings": 2304})",
    .rename = by_layer};

}  // namespace billow::convert

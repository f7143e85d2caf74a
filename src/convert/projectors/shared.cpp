// What several families of pictures share.
#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "convert/projectors/projectors.h"

namespace billow::convert {
namespace {

constexpr uint32_t kMaxPixels = 4096;
constexpr uint32_t kMaxMerge = 64;

constexpr TensorRule kSiglip[] = {
    {"vision_tower.embeddings.patch_embedding", "v.patch_embd"},
    {"vision_tower.embeddings.position_embedding", "v.position_embd"},
    {"vision_tower.embeddings.position_ids", ""},
    {"vision_tower.encoder.layers.#.layer_norm1", "v.blk.#.ln1"},
    {"vision_tower.encoder.layers.#.layer_norm2", "v.blk.#.ln2"},
    {"vision_tower.encoder.layers.#.self_attn.q_proj", "v.blk.#.attn_q"},
    {"vision_tower.encoder.layers.#.self_attn.k_proj", "v.blk.#.attn_k"},
    {"vision_tower.encoder.layers.#.self_attn.v_proj", "v.blk.#.attn_v"},
    {"vision_tower.encoder.layers.#.self_attn.out_proj", "v.blk.#.attn_out"},
    {"vision_tower.encoder.layers.#.mlp.fc1", "v.blk.#.ffn_up"},
    {"vision_tower.encoder.layers.#.mlp.fc2", "v.blk.#.ffn_down"},
    {"vision_tower.post_layernorm", "v.post_ln"},
};

void third(Shaping& shaping, uint64_t index) {
  if (shaping.n_rows() % 3 != 0) shaping.refuse("is not a matrix of queries, keys and values");
  const uint64_t n = shaping.n_rows() / 3;
  shaping.select(1, index * n, n);
}

}  // namespace

TensorRules siglip_names() { return kSiglip; }

uint32_t require_square(const ModelConfig& config, std::string_view name) {
  const auto sides = config.counts(name);
  if (sides && (sides->size() != 2 || sides->front() != sides->back()))
    config.refuse(name, "must be one size or two equal sizes");
  const uint32_t size = sides ? sides->front() : config.require_count({name});
  if (size == 0 || size > kMaxPixels) config.refuse(name, "must be from 1 to 4096");
  return size;
}

uint32_t merge_of(const ModelConfig& config, std::string_view name, uint32_t otherwise) {
  const uint32_t merge = config.count({name}).value_or(otherwise);
  if (merge == 0 || merge > kMaxMerge) config.refuse(name, "must be from 1 to 64");
  return merge;
}

uint32_t require_root(const ModelConfig& config, std::string_view name) {
  const uint32_t square = config.require_size({name});
  const auto root = static_cast<uint32_t>(std::lround(std::sqrt(square)));
  if (root > kMaxPixels || root * root != square)
    config.refuse(name, "must be a square number up to 4096 x 4096");
  return root;
}

ProjectorSizes standard_sizes(const ModelConfig& vision) {
  return {.image_size = require_square(vision, "image_size"),
          .patch_size = require_square(vision, "patch_size"),
          .n_embd = vision.n_embd(),
          .n_ff = vision.require_size({"intermediate_size"}),
          .n_layers = vision.n_layers(),
          .n_heads = vision.n_heads(),
          .norm_epsilon = vision.require_number({"layer_norm_eps"})};
}

uint32_t require_inverse(const ModelConfig& config, std::string_view name) {
  const double value = config.require_number({name});
  const double inverse = value > 0 ? 1 / value : 0;
  if (inverse < 1 || inverse > kMaxMerge || std::abs(inverse - std::round(inverse)) > 1e-6)
    config.refuse(name, "must be 1/n for a whole number n from 1 to 64");
  return static_cast<uint32_t>(std::lround(inverse));
}

void require_same(const ModelConfig& config, std::string_view name, double value) {
  const auto found = config.number({name});
  if (found && std::abs(*found - value) > 1e-6 * std::abs(value))
    config.refuse(name, fmt::format("must be {}; other values are not supported", value));
}

void require_same(const ModelConfig& config, std::string_view name, std::string_view value) {
  const auto found = config.text({name});
  if (found && *found != value)
    config.refuse(name, fmt::format("must be \"{}\"; other values are not supported", value));
}

void require_flag(const ModelConfig& config, std::string_view name, bool value) {
  if (config.flag(name, value) != value)
    config.refuse(name, fmt::format("must be {}; other values are not supported", value));
}

std::optional<uint32_t> size_of(const ModelConfig& processor, std::string_view name) {
  const Document* size = processor.find("size");
  if (size == nullptr || !size->is_object()) return std::nullopt;
  return processor.part("size").count({name});
}

void require_image_size(const ProjectorModel& model, const ProjectorSizes& sizes) {
  for (const char* side : {"height", "width"})
    if (size_of(model.processor, side).value_or(sizes.image_size) != sizes.image_size)
      model.processor.refuse("size", "must be the image_size of vision_config");
}

std::optional<uint64_t> pixels_of_tokens(const ModelConfig& processor, std::string_view name,
                                         uint64_t side) {
  constexpr uint64_t kMaxTokens = 1 << 20;
  constexpr uint64_t kMaxOfPicture = 1 << 24;  // what readers accept
  const auto n_tokens = processor.count({name});
  if (!n_tokens) return std::nullopt;
  if (*n_tokens == 0 || *n_tokens > kMaxTokens) processor.refuse(name, "is 0 or too large");
  const uint64_t n_pixels = *n_tokens * side * side;
  if (n_pixels > kMaxOfPicture) processor.refuse(name, "is too large for this size of patches");
  return n_pixels;
}

void write_limit(KeyWriter& keys, std::string_view key, std::optional<uint64_t> value,
                 uint64_t otherwise) {
  if (value && *value != otherwise) keys.count(key, *value);
}

void as_patches(Shaping& shaping) {
  const std::vector<uint64_t> shape = shaping.shape();
  const uint64_t n_pixels = shape.back() / 3;
  const auto side = static_cast<uint64_t>(std::lround(std::sqrt(static_cast<double>(n_pixels))));
  if (shape.size() != 2 || shape.back() % 3 != 0 || side * side != n_pixels || side == 0)
    shaping.refuse("is not a matrix for square patches of three colors");
  shaping.swap_columns(n_pixels, 3, 1);
  shaping.describe({shape.front(), 3, side, side});
}

void first_third(Shaping& shaping) { third(shaping, 0); }
void second_third(Shaping& shaping) { third(shaping, 1); }
void last_third(Shaping& shaping) { third(shaping, 2); }

}  // namespace billow::convert

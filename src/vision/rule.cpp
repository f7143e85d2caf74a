#include "vision/rule.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/error.h"
#include "vision/family.h"
#include "vision/plan.h"

namespace billow::vision {
namespace {

[[noreturn]] void fail(const gguf::File& file, ErrorCode code, const std::string& why) {
  throw Error(code, file.path() + ": " + why);
}

// Returns the first of these keys that the file has. Throws Error for a number out of range.
std::optional<uint64_t> find_number(const gguf::File& file,
                                    std::initializer_list<std::string_view> keys, uint64_t max) {
  for (const std::string_view key : keys) {
    const std::optional<uint64_t> value = file.get_uint(key);
    if (!value) continue;
    if (*value == 0 || *value > max)
      fail(file, ErrorCode::kInvalidInput,
           std::string(key) + " is " + std::to_string(*value) + "; it must be from 1 to " +
               std::to_string(max));
    return value;
  }
  return std::nullopt;
}

uint32_t require_number(const gguf::File& file, std::string_view key, uint32_t max) {
  const std::optional<uint64_t> value = find_number(file, {key}, max);
  if (!value) fail(file, ErrorCode::kInvalidInput, std::string(key) + " is missing");
  return static_cast<uint32_t>(*value);
}

const Family& family_of(const gguf::File& file) {
  const auto type = file.get_string("clip.projector_type");
  const auto vision_type = file.get_string("clip.vision.projector_type");
  const std::string name(type.value_or(vision_type.value_or("")));
  const auto family = std::ranges::find(families(), name, &Family::projector);
  if (family != families().end()) return *family;
  std::string known;
  for (const Family& row : families())
    known += (known.empty() ? "" : ", ") + std::string(row.projector);
  fail(file, ErrorCode::kUnsupported,
       name.empty() ? "clip.projector_type is missing"
                    : "clip.projector_type \"" + name + "\" is not supported; known are " + known);
}

std::array<float, 3> require_colors(const gguf::File& file, std::string_view key) {
  const gguf::Array* values = file.get_array(key);
  if (values == nullptr || values->n != 3)
    fail(file, ErrorCode::kInvalidInput, std::string(key) + " must have 3 numbers");
  std::array<float, 3> colors{};
  for (size_t c = 0; c < 3; ++c) {
    colors[c] = static_cast<float>(values->number(c));
    if (!std::isfinite(colors[c]))
      fail(file, ErrorCode::kInvalidInput, std::string(key) + " has a value that is not finite");
  }
  return colors;
}

}  // namespace

Rule rule_of(const gguf::File& file) {
  constexpr uint32_t kMaxEdge = 1 << 12;  // pixels; published models have at most 2,048
  constexpr uint32_t kMaxMerge = 64;
  if (!file.get_bool("clip.has_vision_encoder").value_or(true))
    fail(file, ErrorCode::kUnsupported, "the projector has no vision encoder");
  const Family& family = family_of(file);
  const auto number = [&file](std::initializer_list<std::string_view> keys, uint64_t fallback,
                              uint64_t max) {
    return find_number(file, keys, max).value_or(fallback);
  };
  Rule rule{.family = &family,
            .image_size = require_number(file, "clip.vision.image_size", kMaxEdge),
            .patch_size = require_number(file, "clip.vision.patch_size", kMaxEdge)};
  rule.tile_size = family.tile_size > 0 ? family.tile_size : rule.image_size;
  rule.merge = static_cast<uint32_t>(
      number({"clip.vision.projector.scale_factor", "clip.vision.spatial_merge_size"}, family.merge,
             kMaxMerge));
  const uint64_t token_pixels = uint64_t{rule.token_size()} * rule.token_size();
  rule.min_pixels = number({"clip.vision.image_min_pixels"},
                           std::max<uint64_t>(1, family.min_tokens * token_pixels), kMaxTilePixels);
  rule.max_pixels =
      number({"clip.vision.image_max_pixels"},
             std::min(kMaxTilePixels, family.max_tokens * token_pixels), kMaxTilePixels);
  rule.min_tiles =
      static_cast<uint32_t>(number({"clip.vision.preproc_min_tiles"}, family.min_tiles, kMaxTiles));
  rule.max_tiles =
      static_cast<uint32_t>(number({"clip.vision.preproc_max_tiles"}, family.max_tiles, kMaxTiles));
  rule.longest_edge = static_cast<uint32_t>(number(
      {"clip.vision.preproc_image_size"}, uint64_t{4} * rule.image_size, uint64_t{4} * kMaxEdge));
  rule.mean = require_colors(file, "clip.vision.image_mean");
  rule.std = require_colors(file, "clip.vision.image_std");
  if (std::ranges::any_of(rule.std, [](float value) { return value <= 0; }))
    fail(file, ErrorCode::kInvalidInput, "clip.vision.image_std must be above 0");
  if (family.has_square_tiles && rule.tile_size % rule.token_size() != 0)
    fail(file, ErrorCode::kInvalidInput,
         "a tile of " + std::to_string(rule.tile_size) +
             " pixels (clip.vision.image_size) is no multiple of " +
             std::to_string(rule.token_size()) + " (clip.vision.patch_size x patches per token)");
  if (rule.min_tiles > rule.max_tiles)
    fail(file, ErrorCode::kInvalidInput,
         "clip.vision.preproc_min_tiles is above clip.vision.preproc_max_tiles");
  if (family.max_tokens > 0 &&
      (rule.max_pixels < token_pixels || rule.min_pixels > rule.max_pixels))
    fail(file, ErrorCode::kInvalidInput,
         "clip.vision.image_max_pixels is below one token or below clip.vision.image_min_pixels");
  return rule;
}

std::string_view placeholder_of(const Rule& rule) noexcept { return rule.family->placeholder; }

}  // namespace billow::vision

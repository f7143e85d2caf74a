#include "llama/projector.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/saturating.h"

namespace billow::llama {
namespace {

using context::PictureRule;
using Kind = PictureRule::Kind;

// How llama.cpp processes pictures for a kind of projector.
struct Family {
  std::string_view name;  // clip.projector_type
  Kind kind;
  size_t merge;     // patches per row in each direction, if the file does not state the number
  size_t min_rows;  // kScaled
  size_t max_rows;
  size_t max_tiles;  // kTiled
};

constexpr std::array kFamilies{
    Family{"mlp", Kind::kSquare, 1, 0, 0, 0},
    Family{"mlp_norm", Kind::kSquare, 1, 0, 0, 0},
    Family{"ldp", Kind::kSquare, 1, 0, 0, 0},
    Family{"ldpv2", Kind::kSquare, 1, 0, 0, 0},
    Family{"adapter", Kind::kSquare, 1, 0, 0, 0},
    Family{"janus_pro", Kind::kSquare, 1, 0, 0, 0},
    Family{"cogvlm", Kind::kSquare, 1, 0, 0, 0},
    Family{"gemma3", Kind::kSquare, 4, 0, 0, 0},
    Family{"gemma3nv", Kind::kSquare, 1, 0, 0, 0},
    Family{"gemma4v", Kind::kScaled, 3, 70, 1120, 0},
    Family{"gemma4uv", Kind::kScaled, 3, 70, 1120, 0},
    Family{"qwen2vl_merger", Kind::kScaled, 2, 8, 4096, 0},
    Family{"qwen2.5vl_merger", Kind::kScaled, 2, 8, 4096, 0},
    Family{"qwen3vl_merger", Kind::kScaled, 2, 8, 4096, 0},
    Family{"glm4v", Kind::kScaled, 2, 8, 4096, 0},
    Family{"minimax_m3", Kind::kScaled, 2, 8, 576, 0},
    Family{"pixtral", Kind::kScaled, 1, 8, 1024, 0},
    Family{"kimivl", Kind::kScaled, 1, 8, 1024, 0},
    Family{"internvl", Kind::kTiled, 1, 0, 0, 12},
    Family{"llama4", Kind::kTiled, 1, 0, 0, 9},
    Family{"resampler", Kind::kTiled, 1, 0, 0, 10},
};
constexpr Family kUnknown{"", Kind::kScaled, 1, 8, 4096, 0};

constexpr uint64_t kMaxEdge = 1 << 16;    // pixels: far beyond any model
constexpr uint64_t kMaxPixels = 1 << 28;  // far beyond any model

size_t number(const gguf::File& file, const char* key, size_t otherwise, uint64_t max = kMaxEdge) {
  const gguf::Value* value = file.find(key);
  const auto found = value == nullptr ? std::nullopt : gguf::as_uint(*value);
  return static_cast<size_t>(std::min<uint64_t>(found.value_or(otherwise), max));
}

std::string family_of(const gguf::File& file) {
  for (const char* key : {"clip.projector_type", "clip.vision.projector_type"})
    if (const auto name = file.get_string(key)) return std::string(*name);
  return "";
}

PictureRule rule_of(const gguf::File& file) {
  const std::string name = family_of(file);
  const auto* found = std::ranges::find(kFamilies, name, &Family::name);
  const Family& family = found == kFamilies.end() ? kUnknown : *found;
  const size_t patch = number(file, "clip.vision.patch_size", 14);
  const size_t merge = number(file, "clip.vision.projector.scale_factor",
                              number(file, "clip.vision.spatial_merge_size", family.merge));
  PictureRule rule{.kind = family.kind,
                   .cell = std::max<size_t>(1, patch * merge),
                   .edge = std::max<size_t>(1, number(file, "clip.vision.image_size", 448)),
                   .min_rows = family.min_rows,
                   .max_rows = family.max_rows,
                   .max_tiles = number(file, "clip.vision.preproc_max_tiles", family.max_tiles)};
  const size_t cell_area = rule.cell * rule.cell;
  if (const size_t max = number(file, "clip.vision.image_max_pixels", 0, kMaxPixels); max > 0)
    rule.max_rows = std::max<size_t>(1, max / cell_area);
  if (name == "gemma3nv") rule.cell = std::max<size_t>(1, rule.edge / 16);  // 16 x 16 rows
  // idefics3 scales the longer side to `longest` pixels, then splits the picture into tiles.
  if (const size_t longest = number(file, "clip.vision.preproc_image_size", 0);
      name == "idefics3" && longest > 0) {
    const size_t n = (longest + rule.edge - 1) / rule.edge;
    rule.kind = Kind::kTiled;
    rule.max_tiles = n * n;
    rule.min_rows = longest;
  }
  // lfm2 has up to ten tiles of 512 pixels, and the whole picture.
  if (name == "lfm2")
    rule = {.kind = Kind::kTiled, .cell = rule.cell, .edge = 512, .max_tiles = 10};
  if (const gguf::Value* value = file.find("clip.vision.image_grid_pinpoints"); value != nullptr) {
    rule.kind = Kind::kTiled;
    rule.max_tiles = std::max<size_t>(rule.max_tiles, 10);
  }
  return rule;
}

bool flag(const gguf::File& file, const char* key, bool otherwise) {
  const gguf::Value* value = file.find(key);
  return (value == nullptr ? std::nullopt : gguf::as_bool(*value)).value_or(otherwise);
}

// Estimates the buffers that llama-server allocates at startup for a picture (if scaled, of at most
// 46 x 46 rows): the values that a layer computes from all patches. Scores need no memory, because
// clip uses flash attention. A mask of windows needs memory.
uint64_t scratch_of(const gguf::File& file, const PictureRule& rule) {
  const uint64_t patch = std::max<size_t>(1, number(file, "clip.vision.patch_size", 14));
  const uint64_t per_row = std::max<uint64_t>(1, rule.cell / patch);
  uint64_t n_patches = (rule.edge / patch) * (rule.edge / patch);
  constexpr size_t kRowsAtStart = size_t{46} * 46;
  if (rule.kind == Kind::kScaled)
    n_patches = std::min(rule.max_rows, kRowsAtStart) * per_row * per_row;
  const uint64_t width =
      saturating_add(saturating_multiply(8, number(file, "clip.vision.embedding_length", 1024)),
                     saturating_multiply(2, number(file, "clip.vision.feed_forward_length", 4096)));
  const uint64_t values = saturating_multiply(sizeof(float) * n_patches, width);
  const bool has_windows = file.find("clip.vision.n_wa_pattern") != nullptr;
  return has_windows ? saturating_add(values, saturating_multiply(2 * n_patches, n_patches))
                     : values;
}

}  // namespace

Projector projector_of(const gguf::File& file) {
  const std::string kind(file.get_string("general.type").value_or(""));
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  if (kind != "mmproj" && architecture != "clip")
    throw Error(ErrorCode::kInvalidInput,
                file.path() + ": not a projector: its architecture is \"" + architecture + "\"");
  const bool hears = flag(file, "clip.has_audio_encoder", false);
  Projector projector{.weight_bytes = file.n_bytes()};
  if (!flag(file, "clip.has_vision_encoder", !hears)) return projector;
  projector.pictures = rule_of(file);
  projector.scratch_bytes = scratch_of(file, *projector.pictures);
  return projector;
}

}  // namespace billow::llama

// How a model with a projector (a GGUF file, "mmproj") wants its pictures: sizes, tiles and
// normalisation. Plain data; any thread may read.
//
// The reference for every rule is the image processor of Hugging Face transformers (version 5.24,
// the processors that run on torchvision). The parameters are the keys of the GGUF file:
//
//   clip.projector_type or clip.vision.projector_type     the family
//   clip.vision.image_size, patch_size                    pixels
//   clip.vision.image_mean, image_std                     three numbers each
//   clip.vision.projector.scale_factor, spatial_merge_size   patches per token in each direction
//   clip.vision.image_min_pixels, image_max_pixels        optional
//   clip.vision.preproc_min_tiles, preproc_max_tiles      optional
//   clip.vision.preproc_image_size                        optional
//
// A file without an optional key gets the value of the family's published preprocessor_config.json.
// Exception: Qwen's files allow 16,384 tokens; the default here is 4,096, which is llama.cpp's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "gguf/file.h"

namespace billow::vision {

struct Family;  // family.h

struct Rule {
  const Family* family = nullptr;  // never null after rule_of(); a static table row
  uint32_t image_size = 0;         // pixels: one side of the encoder's picture
  uint32_t tile_size = 0;          // pixels: one side of a tile; families with tiles
  uint32_t patch_size = 0;         // pixels: one side of a patch
  uint32_t merge = 1;              // patches per token, in each direction
  uint64_t min_pixels = 1;         // of a resized picture; families that keep the shape
  uint64_t max_pixels = 0;
  uint32_t min_tiles = 1;
  uint32_t max_tiles = 1;
  uint32_t longest_edge = 0;  // pixels, before a picture is split into tiles; Idefics3
  std::array<float, 3> mean{};
  std::array<float, 3> std{1, 1, 1};

  // Pixels of one side of a token. REQUIRES: a rule of rule_of().
  uint32_t token_size() const noexcept { return patch_size * merge; }
};

// Reads the rule from the file's keys. Throws Error that names the file and the key: kUnsupported
// for a file without a vision encoder or with an unknown family, kInvalidInput for missing values
// and for values that do not fit together.
Rule rule_of(const gguf::File& file);

// Returns the text that the family's chat template writes for a picture. Plan::pieces replace it.
std::string_view placeholder_of(const Rule& rule) noexcept;

}  // namespace billow::vision

// The table of families: how each of them processes pictures. Static data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "image/picture.h"
#include "vision/plan.h"
#include "vision/resize.h"
#include "vision/rule.h"

namespace billow::vision {

// How a grey level becomes a float. All results are floats.
enum class Scaling : uint8_t {
  kFused,    // (level - 255 mean) / (255 std)
  kBf16,     // (level / 255 - mean) / std, each step rounded to BF16
  kProduct,  // level * (1 / 255); no mean and no standard deviation
};

enum class PatchOrder : uint8_t { kRows, kMergeBlocks };

struct Family {
  std::string_view projector;  // clip.projector_type
  Filter filter;
  Scaling scaling;
  PatchOrder order;
  // Defaults of the keys of rule.h. 0: the file's image_size, or no such limit.
  uint32_t merge;
  uint32_t tile_size;
  uint64_t min_tokens;
  uint64_t max_tokens;
  uint32_t min_tiles;
  uint32_t max_tiles;
  // Whether tiles have the size tile_size x tile_size, which must then be whole tokens.
  bool has_square_tiles;
  std::string_view placeholder;  // in the chat template
  std::vector<View> (*views)(const Rule& rule, image::Size picture);
  std::vector<Piece> (*pieces)(const Plan& plan);
  std::string_view before = {};  // what the chat template writes around the placeholder
  std::string_view after = {};
};

std::span<const Family> families() noexcept;

}  // namespace billow::vision

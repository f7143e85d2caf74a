#include "vision/sizes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"

namespace billow::vision {
namespace {

using image::Size;

// Converts a side to an integer below 2^32. All callers check results against limits of pixels.
uint32_t side(double pixels) {
  return static_cast<uint32_t>(std::clamp(pixels, 0.0, 4294967295.0));
}

// Like Python's round(): to the nearest integer; if two are equally near, to the even one.
double round_by(double x, double factor) { return std::nearbyint(x / factor) * factor; }
double floor_by(double x, double factor) { return std::floor(x / factor) * factor; }
double ceil_by(double x, double factor) { return std::ceil(x / factor) * factor; }

double area_of(Size size) { return static_cast<double>(uint64_t{size.width} * size.height); }

// The common part of both smart sizes: moves the number of pixels into the range.
Size into_range(Size size, double width, double height, double factor, uint64_t min_pixels,
                uint64_t max_pixels) {
  const auto min = static_cast<double>(min_pixels);
  const auto max = static_cast<double>(max_pixels);
  if (width * height > max) {
    const double beta = std::sqrt(area_of(size) / max);
    width = std::max(factor, floor_by(size.width / beta, factor));
    height = std::max(factor, floor_by(size.height / beta, factor));
  } else if (width * height < min) {
    const double beta = std::sqrt(min / area_of(size));
    width = ceil_by(size.width * beta, factor);
    height = ceil_by(size.height * beta, factor);
  }
  return {side(width), side(height)};
}

// Returns the grids of up to max_tiles tiles. Grids of the same shape are adjacent. The shapes are
// in the order in which they occur from max_tiles down. Source: llama4, find_supported_resolutions.
std::vector<Size> grids_by_shape(uint32_t max_tiles) {
  std::vector<std::vector<Size>> shapes;
  for (uint32_t n = max_tiles; n > 0; --n) {
    for (uint32_t rows = 1; rows <= n; ++rows) {
      if (n % rows != 0) continue;
      const Size grid{n / rows, rows};
      const auto same = std::ranges::find_if(shapes, [grid](const std::vector<Size>& shape) {
        return uint64_t{shape[0].width} * grid.height == uint64_t{shape[0].height} * grid.width;
      });
      (same == shapes.end() ? shapes.emplace_back() : *same).push_back(grid);
    }
  }
  std::vector<Size> grids;
  for (const auto& shape : shapes) grids.insert(grids.end(), shape.begin(), shape.end());
  return grids;
}

// A quotient that the reference computes either as a float (in a tensor) or as a double.
class Quotient {
 public:
  Quotient(uint32_t a, uint32_t b, bool is_float)
      : is_float_(is_float),
        value_(is_float ? static_cast<double>(static_cast<float>(a) / static_cast<float>(b))
                        : static_cast<double>(a) / b) {}

  bool operator<(const Quotient& other) const {
    if (is_float_ || other.is_float_)
      return static_cast<float>(value_) < static_cast<float>(other.value_);
    return value_ < other.value_;
  }
  uint32_t floor_of_product(uint32_t pixels) const {
    if (is_float_) return side(std::floor(static_cast<float>(pixels) * static_cast<float>(value_)));
    return side(std::floor(pixels * value_));
  }

 private:
  bool is_float_;
  double value_;
};

}  // namespace

Size smart_size(Size size, uint32_t factor, uint64_t min_pixels, uint64_t max_pixels) {
  const double longer = std::max(size.width, size.height);
  if (longer / std::min(size.width, size.height) > 200)
    throw Error(ErrorCode::kInvalidInput,
                "the picture has " + std::to_string(size.width) + " x " +
                    std::to_string(size.height) +
                    " pixels; one side may be at most 200 times as long as the other");
  return into_range(size, round_by(size.width, factor), round_by(size.height, factor), factor,
                    min_pixels, max_pixels);
}

Size smart_size_of_any_shape(Size size, uint32_t factor, uint64_t min_pixels, uint64_t max_pixels) {
  const double least = factor;
  return into_range(size, std::max(least, round_by(size.width, factor)),
                    std::max(least, round_by(size.height, factor)), factor, min_pixels, max_pixels);
}

bool needs_tiles(Size size, uint32_t patch_size, uint32_t factor, uint64_t max_pixels) {
  constexpr double kTolerance = 2;  // max_pixels_tolerance
  const double least = patch_size;
  return std::max(least, round_by(size.width, factor)) *
             std::max(least, round_by(size.height, factor)) >
         static_cast<double>(max_pixels) * kTolerance;
}

Size budget_size(Size size, uint32_t factor, uint64_t max_pixels) {
  const auto budget = static_cast<double>(max_pixels);
  const double scale = std::sqrt(budget / area_of(size));
  double width = floor_by(scale * size.width, factor);
  double height = floor_by(scale * size.height, factor);
  const double max_side = std::floor(budget / factor / factor) * factor;
  const double w = size.width;
  const double h = size.height;
  if (height == 0) {
    height = factor;
    width = std::min(std::floor(w / h) * factor, max_side);
  } else if (width == 0) {
    width = factor;
    height = std::min(std::floor(h / w) * factor, max_side);
  }
  if (width == 0 || width * height > budget)
    throw Error(ErrorCode::kInvalidInput, "the picture has " + std::to_string(size.width) + " x " +
                                              std::to_string(size.height) +
                                              " pixels, which is too long for this model");
  return {side(width), side(height)};
}

Size fitted_size(Size size, uint32_t longest_edge, uint32_t factor) {
  double width = size.width;
  double height = size.height;
  const double edge = longest_edge;
  const double ratio = std::max(height / edge, width / edge);
  if (ratio > 1) {
    width = std::max(1.0, std::floor(width / ratio));
    height = std::max(1.0, std::floor(height / ratio));
  }
  return {side(ceil_by(width, factor)), side(ceil_by(height, factor))};
}

Size stretched_size(Size size, uint32_t longest_edge) {
  constexpr double kMaxEdge = 4096;  // MAX_IMAGE_SIZE
  const bool is_wide = size.width >= size.height;
  const double shape = static_cast<double>(size.width) / size.height;
  // Returns the shorter side for the longer side `longer`.
  const auto shorter_of = [is_wide](double longer, double ratio) {
    return std::trunc(is_wide ? longer / ratio : longer * ratio);
  };
  double longer = longest_edge;
  double shorter = shorter_of(longer, shape);
  if (std::fmod(shorter, 2) != 0) shorter += 1;
  shorter = std::max(shorter, 1.0);
  // Like the reference, compares the sides again. If longest_edge is odd, rounding may have made
  // the other side longer.
  const double width = is_wide ? longer : shorter;
  const double height = is_wide ? shorter : longer;
  const double new_shape = width / height;
  if (width >= height && width > kMaxEdge)
    return {side(kMaxEdge), side(std::max(1.0, std::trunc(kMaxEdge / new_shape)))};
  if (height > width && height > kMaxEdge)
    return {side(std::max(1.0, std::trunc(kMaxEdge * new_shape))), side(kMaxEdge)};
  return {side(width), side(height)};
}

Size tiled_size(Size size, uint32_t tile_size) {
  const double shape = static_cast<double>(size.width) / size.height;
  double width = size.width;
  double height = size.height;
  if (size.width >= size.height) {
    width = ceil_by(width, tile_size);
    height = ceil_by(std::trunc(width / shape), tile_size);
  } else {
    height = ceil_by(height, tile_size);
    width = ceil_by(std::trunc(height * shape), tile_size);
  }
  return {side(width), side(height)};
}

Size closest_grid(Size size, uint32_t tile_size, uint32_t min_tiles, uint32_t max_tiles) {
  const double shape = static_cast<double>(size.width) / size.height;
  const double tile_area = static_cast<double>(tile_size) * tile_size;
  double best_distance = std::numeric_limits<double>::infinity();
  Size best{1, 1};
  for (uint32_t n = min_tiles; n <= max_tiles; ++n) {
    for (uint32_t cols = 1; cols <= n; ++cols) {
      if (n % cols != 0) continue;
      const uint32_t rows = n / cols;
      const double distance = std::abs(shape - static_cast<double>(cols) / rows);
      const bool covers_half = area_of(size) > 0.5 * tile_area * n;
      if (distance > best_distance || (distance == best_distance && !covers_half)) continue;
      best_distance = distance;
      best = {cols, rows};
    }
  }
  return best;
}

Canvas best_canvas(Size size, uint32_t tile_size, uint32_t max_tiles) {
  struct Choice {
    Size canvas;
    float scale;
  };
  std::vector<Choice> choices;
  for (const Size grid : grids_by_shape(max_tiles)) {
    const Size canvas{grid.width * tile_size, grid.height * tile_size};
    const float wide = static_cast<float>(canvas.width) / static_cast<float>(size.width);
    const float high = static_cast<float>(canvas.height) / static_cast<float>(size.height);
    choices.push_back({canvas, high > wide ? wide : high});
  }
  // The smallest scale that does not reduce the picture. If there is none, the largest scale.
  float scale = std::numeric_limits<float>::infinity();
  for (const Choice& choice : choices)
    if (choice.scale >= 1) scale = std::min(scale, choice.scale);
  if (std::isinf(scale)) scale = std::ranges::max_element(choices, {}, &Choice::scale)->scale;
  Size best{};
  for (const Choice& choice : choices)
    if (choice.scale == scale && (best.width == 0 || area_of(choice.canvas) < area_of(best)))
      best = choice.canvas;
  // The picture is not enlarged beyond one tile.
  const Size room{std::min(std::max(size.width, tile_size), best.width),
                  std::min(std::max(size.height, tile_size), best.height)};
  const Quotient wide(room.width, size.width, best.width < std::max(size.width, tile_size));
  const Quotient high(room.height, size.height, best.height < std::max(size.height, tile_size));
  Size fitted = room;
  if (wide < high)
    fitted.height = std::min(wide.floor_of_product(size.height), room.height);
  else
    fitted.width = std::min(high.floor_of_product(size.width), room.width);
  return {{std::max(fitted.width, 1u), std::max(fitted.height, 1u)}, best};
}

}  // namespace billow::vision

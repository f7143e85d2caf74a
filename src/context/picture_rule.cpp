#include "context/picture_rule.h"

#include <algorithm>
#include <cmath>

#include "base/saturating.h"

namespace billow::context {
namespace {

uint64_t cells(double length, double cell) {
  constexpr double kMax = 1e18;  // below 2^64
  return static_cast<uint64_t>(std::clamp(std::ceil(length / cell), 1.0, kMax));
}

uint64_t scaled_rows(const PictureRule& rule, double width, double height) {
  const auto cell = static_cast<double>(std::max<size_t>(1, rule.cell));
  const double n = std::ceil(width / cell) * std::ceil(height / cell);
  double scale = 1.0;
  const double area = width * height;
  if (rule.max_rows > 0 && n > static_cast<double>(rule.max_rows))
    scale = std::sqrt(static_cast<double>(rule.max_rows) * cell * cell / area);
  else if (n < static_cast<double>(rule.min_rows))
    scale = std::sqrt(static_cast<double>(rule.min_rows) * cell * cell / area);
  const uint64_t lines = cells(height * scale, cell);
  // Some models end each line of rows with a token.
  return saturating_add(saturating_multiply(cells(width * scale, cell), lines), lines);
}

// Returns the number of parts that a picture is cut into; the whole picture is not counted.
uint64_t tiles(const PictureRule& rule, uint64_t width, uint64_t height) {
  const auto edge = static_cast<double>(std::max<size_t>(1, rule.edge));
  auto wide = static_cast<double>(std::max<uint64_t>(1, width));
  auto high = static_cast<double>(std::max<uint64_t>(1, height));
  if (rule.min_rows > 0) {
    const double scale = static_cast<double>(rule.min_rows) / std::max(wide, high);
    wide *= scale;
    high *= scale;
  }
  if (wide <= edge && high <= edge) return 0;
  return std::min<uint64_t>(rule.max_tiles,
                            saturating_multiply(cells(wide, edge), cells(high, edge)));
}

}  // namespace

size_t max_rows(const PictureRule& rule, uint64_t width, uint64_t height) noexcept {
  const uint64_t per_edge =
      cells(static_cast<double>(rule.edge), static_cast<double>(std::max<size_t>(1, rule.cell)));
  const uint64_t square = saturating_add(saturating_multiply(per_edge, per_edge), kPictureMarkers);
  uint64_t rows = square;
  if (rule.kind == PictureRule::Kind::kScaled) {
    rows = saturating_add(scaled_rows(rule, static_cast<double>(std::max<uint64_t>(1, width)),
                                      static_cast<double>(std::max<uint64_t>(1, height))),
                          kPictureMarkers);
  } else if (rule.kind == PictureRule::Kind::kTiled) {
    rows = saturating_multiply(square, saturating_add(tiles(rule, width, height), 1));
  }
  return static_cast<size_t>(rows);
}

}  // namespace billow::context

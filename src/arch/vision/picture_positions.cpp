#include "arch/vision/picture_positions.h"

#include <algorithm>
#include <cmath>

#include "arch/metadata.h"
#include "base/check.h"
#include "base/error.h"

namespace billow::arch {
namespace {

constexpr const char* kName = "v.position_embd.weight";

size_t square_root(size_t n) {
  auto root = static_cast<size_t>(std::sqrt(static_cast<double>(n)));
  while (root * root > n) --root;
  return root;
}

// Pixels are squares, and a shrunk picture is the mean of larger areas: torch's interpolate() with
// antialias=True and align_corners=False.
std::vector<AxisTap> antialiased(size_t n_grid, size_t n, size_t i) {
  const float scale = static_cast<float>(n_grid) / static_cast<float>(n);
  const float support = std::max(scale, 1.0f);
  const float center = scale * (static_cast<float>(i) + 0.5f);
  const auto first = static_cast<size_t>(std::max(std::floor(center - support + 0.5f), 0.0f));
  const size_t last = std::min(static_cast<size_t>(std::floor(center + support + 0.5f)), n_grid);
  std::vector<AxisTap> taps;
  float sum = 0.0f;
  for (size_t index = first; index < last; ++index) {
    const float distance = (static_cast<float>(index) - center + 0.5f) / support;
    const float weight = std::max(1.0f - std::abs(distance), 0.0f);
    taps.push_back({static_cast<uint32_t>(index), weight});
    sum += weight;
  }
  for (AxisTap& tap : taps) tap.weight /= sum;
  return taps;
}

// The first and last places of the tile are at those of the grid.
std::vector<AxisTap> stretched(size_t n_grid, size_t n, size_t i) {
  const float step = n == 1 ? 0.0f : static_cast<float>(n_grid - 1) / static_cast<float>(n - 1);
  // From the end in the second half, like torch's linspace().
  const float at = i < n / 2
                       ? step * static_cast<float>(i)
                       : static_cast<float>(n_grid - 1) - step * static_cast<float>(n - 1 - i);
  if (n == 1) return {{0, 1.0f}};
  const auto below = static_cast<size_t>(std::max(at, 0.0f));
  const float share = at - static_cast<float>(below);
  const size_t above = std::min(below + 1, n_grid - 1);
  return {{static_cast<uint32_t>(below), 1.0f - share}, {static_cast<uint32_t>(above), share}};
}

AxisTaps own_taps(size_t n) {
  AxisTaps taps;
  for (size_t i = 0; i < n; ++i) taps.push_back({{static_cast<uint32_t>(i), 1.0f}});
  return taps;
}

}  // namespace

AxisTaps resized_taps(PositionKind kind, size_t n_grid, size_t n) {
  AxisTaps taps;
  for (size_t i = 0; i < n; ++i)
    taps.push_back(kind == PositionKind::kResized ? antialiased(n_grid, n, i)
                                                  : stretched(n_grid, n, i));
  return taps;
}

void PicturePositions::load(const WeightLoader& load, const PictureStyle& style,
                            const vision::Rule& rule) {
  kind_ = style.positions;
  if (kind_ == PositionKind::kNone) return;
  if (kind_ == PositionKind::kGrid) {
    n_side_ = rule.tile_size / rule.patch_size;
    const size_t n_places = n_side_ * n_side_;
    first_ = style.class_row == ClassRow::kFirst ? 1 : 0;
    class_index_ = style.class_row == ClassRow::kFirst ? 0 : n_places;
    load.table(kName, table_, style.n_embd,
               n_places + (style.class_row == ClassRow::kNone ? 0 : 1));
    return;
  }
  const gguf::TensorInfo* info = load.file().find_tensor(kName);
  const size_t n = info == nullptr ? 1 : info->shape[1];
  if (n == 0 || n > kMaxWidth) {
    throw Error(ErrorCode::kInvalidInput,
                load.file().path() + ": tensor " + kName + " has " + std::to_string(n) + " rows");
  }
  if (kind_ == PositionKind::kAxes) {
    std::vector<tensor::Tensor> tables;
    load.plain_matrices(kName, tables, style.n_embd, n, 2);
    table_ = tables[0];
    row_table_ = tables[1];
    n_side_ = n;
    return;
  }
  load.table(kName, table_, style.n_embd, n);
  n_side_ = square_root(n);
  if (n_side_ * n_side_ != n) {
    throw Error(ErrorCode::kInvalidInput, load.file().path() + ": tensor " + kName + " has " +
                                              std::to_string(n) +
                                              " rows, which are not the places of a square");
  }
}

void PicturePositions::check(const vision::Tile& tile) const {
  const bool fits =
      kind_ == PositionKind::kGrid
          ? tile.rows == n_side_ && tile.cols == n_side_
          : kind_ != PositionKind::kAxes || (tile.rows <= n_side_ && tile.cols <= n_side_);
  if (fits) return;
  throw Error(ErrorCode::kTooLarge,
              "the picture has " + std::to_string(tile.cols) + " x " + std::to_string(tile.rows) +
                  " patches; the model has positions for " + std::to_string(n_side_) + " x " +
                  std::to_string(n_side_) + (kind_ == PositionKind::kGrid ? " only" : " at most"));
}

PicturePositions::Taps PicturePositions::taps_of(const vision::Tile& tile) const {
  if (kind_ == PositionKind::kResized || kind_ == PositionKind::kStretched)
    return {resized_taps(kind_, n_side_, tile.rows), resized_taps(kind_, n_side_, tile.cols)};
  if (kind_ == PositionKind::kNone) return {};
  return {own_taps(tile.rows), own_taps(tile.cols)};
}

void PicturePositions::add_row(const tensor::Tensor& table, size_t index, float weight,
                               float* scratch, float* x) const {
  quant::row(table.type).decode(table.row(index), table.n_cols, scratch);
  for (size_t i = 0; i < table.n_cols; ++i) x[i] += weight * scratch[i];
}

void PicturePositions::add(const PictureRow& row, const Taps& taps, float* scratch,
                           float* x) const {
  if (row.patch == PictureRow::kNoPatch) return add_row(table_, class_index_, 1.0f, scratch, x);
  if (kind_ == PositionKind::kAxes) {
    add_row(table_, row.col, 1.0f, scratch, x);
    return add_row(row_table_, row.row, 1.0f, scratch, x);
  }
  for (const AxisTap& of_row : taps.rows[row.row])
    for (const AxisTap& of_col : taps.cols[row.col])
      add_row(table_, first_ + of_row.index * n_side_ + of_col.index, of_row.weight * of_col.weight,
              scratch, x);
}

}  // namespace billow::arch

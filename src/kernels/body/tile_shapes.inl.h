// The use of the eight tiles by products: two groups of up to 16 rows of activations by two strips
// of weights. Sums of group g and strip s are tile 2 g + s. Activations of g are tile 4 + g,
// weights of s are tile 6 + s. So each load of a panel's tile serves two groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace billow::kernels {
namespace {

struct TileShape {
  uint8_t rows = 0;
  uint16_t row_bytes = 0;
  friend bool operator==(const TileShape&, const TileShape&) = default;
};

constexpr size_t kTileGroupRows = 16;

// A group of activations, at the first k of a product.
struct TileGroup {
  const std::byte* at = nullptr;
  size_t n_rows = 0;
};

// Configures tiles for two groups of rows; the second group may have no rows. A tile of activations
// has k_bytes bytes of each row.
template <class AnyTiles>
class TileSetting {
 public:
  explicit TileSetting(AnyTiles& tiles, size_t k_bytes) noexcept
      : tiles_(tiles), k_bytes_(k_bytes) {}

  void set(size_t n_first, size_t n_second) noexcept {
    if (n_[0] == n_first && n_[1] == n_second) return;
    n_[0] = n_first;
    n_[1] = n_second;
    TileShape shapes[8] = {};
    for (size_t g = 0; g < 2; ++g) {
      if (n_[g] == 0) continue;
      const auto rows = static_cast<uint8_t>(n_[g]);
      shapes[2 * g] = shapes[2 * g + 1] = {rows, 64};
      shapes[4 + g] = {rows, static_cast<uint16_t>(k_bytes_)};
    }
    shapes[6] = shapes[7] = {static_cast<uint8_t>(k_bytes_ / 4), 64};
    tiles_.configure(shapes);
  }

 private:
  AnyTiles& tiles_;
  size_t k_bytes_;
  size_t n_[2] = {0, 0};
};

// Calls dot for the products of all loaded tiles of G groups and S strips.
template <size_t G, size_t S, class Dot>
inline void each_tile(Dot dot) noexcept {
  dot(std::integral_constant<int, 0>(), std::integral_constant<int, 0>());
  if constexpr (S == 2) dot(std::integral_constant<int, 0>(), std::integral_constant<int, 1>());
  if constexpr (G == 2) dot(std::integral_constant<int, 1>(), std::integral_constant<int, 0>());
  if constexpr (G == 2 && S == 2)
    dot(std::integral_constant<int, 1>(), std::integral_constant<int, 1>());
}

}  // namespace
}  // namespace billow::kernels

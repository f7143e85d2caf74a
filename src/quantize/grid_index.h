// Finds grid entries (quant/grids.h) by their levels, and the nearest entries of combinations that
// are not in the grid. Each grid's index is built at its first use. After that, any thread may read
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::quantize {

class GridIndex {
 public:
  // An entry packs the levels of its elements: 8 elements of 2 bits (3 different levels), or 4
  // elements of 3 bits (8 levels). A combination outside the grid has neighbours: the entries at
  // the `n_distances` smallest distances.
  GridIndex(std::span<const uint16_t> entries, size_t level_bits, size_t n_distances);

  // Returns the entry's index, or -1 for a combination outside the grid.
  int index_of(uint16_t levels) const noexcept { return places_[levels]; }
  // Returns the levels of the nearest entries, by distance and then by index; never empty.
  // REQUIRES: index_of(levels) is -1, and each level is a level of the grid.
  std::span<const uint16_t> neighbours(uint16_t levels) const noexcept {
    const Range& range = ranges_[levels];
    return std::span(neighbours_).subspan(range.begin, range.n);
  }

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t n = 0;
  };
  std::vector<int16_t> places_;
  std::vector<Range> ranges_;
  std::vector<uint16_t> neighbours_;
};

}  // namespace billow::quantize

// Which entries of a grid (quant/grids.h) stand for combinations of levels that are not among them.
// Built once for each grid, when it is first asked for; then any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::quantize {

class GridIndex {
 public:
  // Entries of 8 elements with 3 levels, 2 bits each, or of 4 with 8 levels, 3 bits each. For
  // combinations beside the grid, `n_distances` says how far around neighbours are looked for.
  GridIndex(std::span<const uint16_t> entries, size_t level_bits, size_t n_distances);

  // The entry's index, or -1 for a combination that is not in the grid.
  int index_of(uint16_t levels) const noexcept { return places_[levels]; }
  // The combinations of the nearest entries, by distance and then by index; never empty. REQUIRES:
  // index_of(levels) is -1, each level is one that the grid has.
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

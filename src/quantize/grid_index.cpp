#include "quantize/grid_index.h"

#include <array>

#include "quant/grid.h"

namespace billow::quantize {
namespace {

constexpr size_t kMaxDistance = size_t{8} * 7 * 7;  // of two combinations: squared, in levels

// Calls use(levels) for each combination of levels.
template <class Use>
void for_combinations(size_t level_bits, const Use& use) {
  const size_t n_elements = level_bits == 2 ? 8 : 4;
  const unsigned n_levels = level_bits == 2 ? 3 : 8;
  size_t n = 1;
  for (size_t i = 0; i < n_elements; ++i) n *= n_levels;
  for (size_t number = 0; number < n; ++number) {
    size_t rest = number;
    unsigned levels = 0;
    for (size_t i = 0; i < n_elements; ++i, rest /= n_levels) {
      levels |= static_cast<unsigned>(rest % n_levels) << (i * level_bits);
    }
    use(static_cast<uint16_t>(levels));
  }
}

}  // namespace

GridIndex::GridIndex(std::span<const uint16_t> entries, size_t level_bits, size_t n_distances)
    : places_(size_t{1} << 16, int16_t{-1}), ranges_(size_t{1} << 16) {
  const size_t n_elements = level_bits == 2 ? 8 : 4;
  for (size_t i = 0; i < entries.size(); ++i) places_[entries[i]] = static_cast<int16_t>(i);
  std::vector<std::array<int8_t, 8>> points(entries.size());
  for (size_t j = 0; j < entries.size(); ++j) {
    for (size_t i = 0; i < n_elements; ++i) {
      points[j][i] = static_cast<int8_t>(quant::level_of(entries[j], i, level_bits));
    }
  }
  std::vector<uint16_t> distances(entries.size());
  for_combinations(level_bits, [&](uint16_t levels) {
    if (places_[levels] >= 0) return;
    std::array<int8_t, 8> own = {};
    for (size_t i = 0; i < n_elements; ++i) {
      own[i] = static_cast<int8_t>(quant::level_of(levels, i, level_bits));
    }
    std::array<bool, kMaxDistance + 1> met = {};
    for (size_t j = 0; j < points.size(); ++j) {
      int distance = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        distance += (points[j][i] - own[i]) * (points[j][i] - own[i]);
      }
      distances[j] = static_cast<uint16_t>(distance);
      met[distances[j]] = true;
    }
    Range& range = ranges_[levels];
    range.begin = static_cast<uint32_t>(neighbours_.size());
    size_t n_taken = 0;
    for (size_t distance = 0; distance < met.size() && n_taken < n_distances; ++distance) {
      if (!met[distance]) continue;
      ++n_taken;
      for (size_t j = 0; j < entries.size(); ++j) {
        if (distances[j] == distance) neighbours_.push_back(entries[j]);
      }
    }
    range.n = static_cast<uint32_t>(neighbours_.size() - range.begin);
  });
}

}  // namespace billow::quantize

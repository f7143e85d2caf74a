#include "image/exif.h"

#include <cstring>
#include <optional>
#include <utility>

namespace billow::image {
namespace {

// Reads numbers of a TIFF structure, in its byte order.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes)
      : bytes_(bytes), is_little_(bytes.starts_with(std::string_view("II*\0", 4))) {}

  bool is_valid() const { return is_little_ || bytes_.starts_with(std::string_view("MM\0*", 4)); }
  std::optional<uint32_t> number(uint64_t at, size_t n_bytes) const {
    if (at > bytes_.size() || bytes_.size() - at < n_bytes) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < n_bytes; ++i) {
      const size_t from = is_little_ ? n_bytes - 1 - i : i;
      value = value << 8 | static_cast<uint8_t>(bytes_[at + from]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool is_little_;
};

}  // namespace

int orientation_of(std::string_view exif) noexcept {
  constexpr std::string_view kHead("Exif\0\0", 6);
  constexpr uint32_t kOrientation = 0x0112;
  constexpr uint32_t kShort = 3;
  if (exif.starts_with(kHead)) exif.remove_prefix(kHead.size());
  const Tiff tiff(exif);
  const auto first = tiff.is_valid() ? tiff.number(4, 4) : std::nullopt;
  const auto n_entries = first ? tiff.number(*first, 2) : std::nullopt;
  if (!n_entries) return 1;
  for (uint32_t i = 0; i < *n_entries; ++i) {
    const uint64_t at = uint64_t{*first} + 2 + uint64_t{12} * i;
    const auto tag = tiff.number(at, 2);
    if (!tag) return 1;
    if (*tag != kOrientation) continue;
    const auto value = tiff.number(at + 8, 2);
    const bool fits = tiff.number(at + 2, 2) == kShort && value && *value >= 1 && *value <= 8;
    return fits ? static_cast<int>(*value) : 1;
  }
  return 1;
}

Picture turned(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const auto [width, height] = picture.size;
  const bool swaps = is_on_its_side(orientation);
  // Determines which source pixel gives the pixel at (x, y) of the result.
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Picture out{.size = swaps ? Size{height, width} : picture.size, .rgb = {}};
  out.rgb.resize(picture.rgb.size());
  uint8_t* to = out.rgb.data();
  for (uint32_t y = 0; y < out.size.height; ++y) {
    for (uint32_t x = 0; x < out.size.width; ++x, to += 3) {
      uint32_t column = swaps ? y : x;
      uint32_t row = swaps ? x : y;
      if (from_right) column = width - 1 - column;
      if (from_bottom) row = height - 1 - row;
      std::memcpy(to, picture.rgb.data() + (size_t{row} * width + column) * 3, 3);
    }
  }
  return out;
}

}  // namespace billow::image

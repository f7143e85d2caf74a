// Decodes BMP: the common headers, 1 to 32 bits per pixel, bit fields and run lengths.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "image/codec.h"

namespace billow::image {
namespace {

constexpr size_t kFileHeader = 14;
constexpr uint32_t kOldHeader = 12;  // from OS/2: sizes of 16 bits, colours of 3 bytes

enum Compression : uint32_t {
  kNone = 0,
  kRuns8 = 1,
  kRuns4 = 2,
  kFields = 3,
  kFieldsWithAlpha = 6
};

// The bits of one colour in a pixel.
struct Field {
  uint32_t mask = 0;

  uint8_t of(uint32_t pixel) const {
    if (mask == 0) return 0;
    const int low = std::countr_zero(mask);
    const uint64_t max = mask >> low;
    const uint64_t value = (pixel & mask) >> low;
    return static_cast<uint8_t>((value * 255 + max / 2) / max);
  }
};

class Reader {
 public:
  Reader(std::string_view bytes, const Work& work) : bytes_(bytes), work_(work) { read_header(); }

  Size size() const { return size_; }

  Picture decode() {
    work_.check_size(size_.width, size_.height);
    Picture picture = white(size_);
    if (compression_ == kRuns8 || compression_ == kRuns4)
      read_runs(picture);
    else
      read_rows(picture);
    return picture;
  }

 private:
  uint32_t number(uint64_t at, size_t n_bytes) const {
    if (at > bytes_.size() || bytes_.size() - at < n_bytes) work_.fail("its data ends too early");
    uint32_t value = 0;
    for (size_t i = n_bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes_[at + i]);
    return value;
  }

  void read_header() {
    pixels_at_ = number(10, 4);
    const uint32_t n_header = number(kFileHeader, 4);
    const bool is_old = n_header == kOldHeader;
    if (!is_old && n_header < 40) work_.fail("its header type is unknown");
    const auto width =
        is_old ? static_cast<int32_t>(number(18, 2)) : static_cast<int32_t>(number(18, 4));
    const auto height =
        is_old ? static_cast<int32_t>(number(20, 2)) : static_cast<int32_t>(number(22, 4));
    if (width <= 0 || height == 0 || height == INT32_MIN) work_.fail("it has no pixels");
    is_top_down_ = height < 0;
    size_ = {static_cast<uint32_t>(width), static_cast<uint32_t>(std::abs(height))};
    n_bits_ = number(is_old ? 24 : 28, 2);
    compression_ = is_old ? uint32_t{kNone} : number(30, 4);
    const uint32_t n_colors = is_old ? 0 : number(46, 4);
    check_kind();
    if (n_bits_ <= 8) return read_colors(n_header, is_old, n_colors);
    read_fields(n_header);
  }

  void check_kind() const {
    constexpr std::array<uint32_t, 6> kBits{1, 4, 8, 16, 24, 32};
    const bool has_fields = compression_ == kFields || compression_ == kFieldsWithAlpha;
    const bool fits = (compression_ == kNone) || (compression_ == kRuns8 && n_bits_ == 8) ||
                      (compression_ == kRuns4 && n_bits_ == 4) ||
                      (has_fields && (n_bits_ == 16 || n_bits_ == 32));
    if (!fits || std::ranges::find(kBits, n_bits_) == kBits.end())
      work_.refuse("has " + std::to_string(n_bits_) + " bits per pixel with compression " +
                   std::to_string(compression_));
  }

  void read_colors(uint32_t n_header, bool is_old, uint32_t n_given) {
    const uint32_t max = uint32_t{1} << n_bits_;
    const uint32_t n = n_given == 0 ? max : std::min(n_given, max);
    const size_t n_bytes = is_old ? 3 : 4;
    const uint64_t at = uint64_t{kFileHeader} + n_header;
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t from = at + uint64_t{i} * n_bytes;
      // Some files have fewer colours than their header says: their pixels begin inside the table.
      if (from + 3 > std::min<uint64_t>(pixels_at_, bytes_.size())) break;
      const uint32_t color = number(from, 3);
      colors_[i] = {static_cast<uint8_t>(color >> 16), static_cast<uint8_t>(color >> 8),
                    static_cast<uint8_t>(color)};
    }
  }

  void read_fields(uint32_t n_header) {
    if (n_bits_ == 24) return;
    if (n_bits_ == 16 && compression_ == kNone) {
      fields_ = {Field{0x7c00}, Field{0x03e0}, Field{0x001f}, Field{0}};
    } else if (compression_ == kNone) {
      fields_ = {Field{0xff0000}, Field{0xff00}, Field{0xff}, Field{0}};
    } else {
      constexpr uint64_t kMasks =
          kFileHeader + 40;  // after the short header, or within a longer one
      const bool has_alpha = compression_ == kFieldsWithAlpha || n_header >= 56;
      for (size_t i = 0; i < (has_alpha ? 4 : 3); ++i) fields_[i].mask = number(kMasks + 4 * i, 4);
    }
  }

  uint8_t* row_of(Picture& picture, uint32_t y) const {
    const uint32_t to = is_top_down_ ? y : size_.height - 1 - y;
    return picture.rgb.data() + size_t{to} * size_.width * 3;
  }

  void read_rows(Picture& picture) const {
    const uint64_t row_bytes = (uint64_t{size_.width} * n_bits_ + 31) / 32 * 4;
    for (uint32_t y = 0; y < size_.height; ++y) {
      if (y % 64 == 0) work_.check_time();
      const uint64_t at = pixels_at_ + y * row_bytes;
      const uint64_t n_needed = (uint64_t{size_.width} * n_bits_ + 7) / 8;
      if (at > bytes_.size() || bytes_.size() - at < n_needed)
        work_.fail("its data ends too early");
      read_row(reinterpret_cast<const uint8_t*>(bytes_.data()) + at, row_of(picture, y));
    }
  }

  void read_row(const uint8_t* from, uint8_t* to) const {
    for (uint32_t x = 0; x < size_.width; ++x, to += 3) {
      if (n_bits_ <= 8) {
        const uint64_t bit = uint64_t{x} * n_bits_;
        const auto shift = static_cast<unsigned>(8 - n_bits_ - bit % 8);
        put_color(static_cast<uint8_t>(from[bit / 8] >> shift & ((1U << n_bits_) - 1)), to);
        continue;
      }
      const uint8_t* pixel = from + size_t{x} * (n_bits_ / 8);
      if (n_bits_ == 24) {
        for (size_t c = 0; c < 3; ++c) to[c] = pixel[2 - c];
        continue;
      }
      uint32_t value = 0;
      for (size_t i = n_bits_ / 8; i-- > 0;) value = value << 8 | pixel[i];
      const uint8_t alpha = fields_[3].mask == 0 ? 255 : fields_[3].of(value);
      const uint8_t rgba[4] = {fields_[0].of(value), fields_[1].of(value), fields_[2].of(value),
                               alpha};
      put_on_white(rgba, 1, to);
    }
  }

  void put_color(uint8_t index, uint8_t* to) const { std::memcpy(to, colors_[index].data(), 3); }

  // Decodes pairs of a count and a value. A count of 0 begins an escape code. Skipped pixels stay
  // white.
  void read_runs(Picture& picture) const {
    uint64_t at = pixels_at_;
    uint32_t x = 0;
    uint32_t y = 0;
    const auto put = [&](uint8_t index) {
      if (x < size_.width && y < size_.height) put_color(index, row_of(picture, y) + size_t{x} * 3);
      ++x;
    };
    const auto put_pixel = [&](uint8_t value, uint32_t i) {
      if (n_bits_ == 8) return put(value);
      put(i % 2 == 0 ? value >> 4 : value & 15);
    };
    for (size_t n_pairs = 0;; ++n_pairs) {
      if (n_pairs % 4096 == 0) work_.check_time();
      const uint32_t count = number(at, 1);
      const auto value = static_cast<uint8_t>(number(at + 1, 1));
      at += 2;
      if (count > 0) {
        for (uint32_t i = 0; i < count; ++i) put_pixel(value, i);
      } else if (value == 0) {
        x = 0;
        if (++y >= size_.height) return;
      } else if (value == 1) {
        return;
      } else if (value == 2) {
        x += number(at, 1);
        y += number(at + 1, 1);
        at += 2;
        if (y >= size_.height) return;
      } else {
        const uint64_t n_bytes = (uint64_t{value} * n_bits_ + 7) / 8;
        for (uint32_t i = 0; i < value; ++i)
          put_pixel(static_cast<uint8_t>(number(at + uint64_t{i} * n_bits_ / 8, 1)), i);
        at += (n_bytes + 1) / 2 * 2;
      }
    }
  }

  std::string_view bytes_;
  const Work& work_;
  Size size_;
  uint32_t pixels_at_ = 0;
  uint32_t n_bits_ = 0;
  uint32_t compression_ = kNone;
  bool is_top_down_ = false;
  std::array<std::array<uint8_t, 3>, 256> colors_{};
  std::array<Field, 4> fields_{};
};

}  // namespace

Header bmp_header(std::string_view bytes, const Work& work) {
  return {.size = Reader(bytes, work).size()};
}

Decoded decode_bmp(std::string_view bytes, const Work& work) {
  return {.picture = Reader(bytes, work).decode()};
}

}  // namespace billow::image

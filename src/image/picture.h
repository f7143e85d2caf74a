// Pictures of requests: PNG, JPEG, WebP, GIF (the first frame) and BMP, decoded in memory to RGB of
// 8 bits. The bytes are not trusted. Pure functions; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::image {

enum class Format : uint8_t { kPng, kJpeg, kWebp, kGif, kBmp };

// "PNG", "JPEG", "WebP", "GIF" and "BMP".
std::string_view format_name(Format format) noexcept;
// By the first bytes alone; nullopt: none of these.
std::optional<Format> find_format(std::string_view bytes) noexcept;

struct Limits {
  size_t max_bytes = size_t{64} << 20;  // of the file
  uint64_t max_pixels = 50'000'000;     // width x height; decoding takes up to 7 bytes of each
  // Checked between rows and scans.
  std::chrono::milliseconds max_time{10'000};
};

struct Size {
  uint32_t width = 0;
  uint32_t height = 0;
  bool operator==(const Size&) const = default;
};

struct Picture {
  Size size;
  std::vector<uint8_t>
      rgb;  // [height][width][3]: sRGB as the file has it; profiles are not applied
};

// All of these throw Error in one line that says what is wrong: kInvalidInput for bytes that are no
// whole picture, kUnsupported for a kind that is not decoded, kTooLarge beyond the limits.

// The size of the picture as decode() gives it. Takes no memory for pixels.
Size size_of(std::string_view bytes, const Limits& limits = {});

// The pixels, turned as the EXIF orientation says. What is transparent is put on white. 16 bits
// lose their lower 8. CMYK becomes RGB by multiplication with the black.
Picture decode(std::string_view bytes, const Limits& limits = {});

// A PNG file of the picture, written fast: it is larger than it need be.
std::string encode_png(const Picture& picture);

}  // namespace billow::image

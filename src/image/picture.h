// Decodes pictures of requests in memory to RGB of 8 bits: PNG, JPEG, WebP, GIF (the first frame)
// and BMP. The bytes are not trusted. Pure functions; any thread.
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

// Returns "PNG", "JPEG", "WebP", "GIF" or "BMP".
std::string_view format_name(Format format) noexcept;
// Detects the format by the first bytes. Returns nullopt for an unknown format.
std::optional<Format> find_format(std::string_view bytes) noexcept;

struct Limits {
  size_t max_bytes = size_t{64} << 20;  // size of the file
  uint64_t max_pixels = 50'000'000;     // width x height; decoding takes up to 11 bytes per pixel
  // Checked between rows and scans; not checked while a WebP frame is decoded.
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
      rgb;  // [height][width][3]: values of the file, taken as sRGB; color profiles are ignored
};

// size_of() and decode() throw Error with a one-line message: kInvalidInput for bytes that are not
// a complete picture, kUnsupported for an unsupported format, kTooLarge beyond the limits.

// Returns the size of the picture that decode() returns. Allocates no memory for pixels.
Size size_of(std::string_view bytes, const Limits& limits = {});

// Decodes the pixels and applies the EXIF orientation. Blends transparent pixels onto white. Drops
// the lower 8 of 16 bits. Converts CMYK to RGB by multiplication with the black.
Picture decode(std::string_view bytes, const Limits& limits = {});

// Encodes the picture as a PNG file. Prefers speed over a small file. Throws Error.
std::string encode_png(const Picture& picture);

}  // namespace billow::image

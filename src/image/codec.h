// What the decoders of this module share. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "image/picture.h"

namespace billow::image {

// One decoding: its limits, and when it began.
class Work {
 public:
  Work(Format format, const Limits& limits)
      : format_(format), limits_(limits), end_(Clock::now() + limits.max_time) {}

  // Throws Error (kTooLarge) beyond the pixels that are allowed, kInvalidInput for no pixels.
  // REQUIRED before memory is taken for pixels.
  void check_size(uint64_t width, uint64_t height) const;
  // Throws Error (kTooLarge) when the time is over.
  void check_time() const;
  bool is_late() const noexcept { return Clock::now() > end_; }
  [[noreturn]] void fail_late() const;
  // Throws Error (kInvalidInput): "the PNG picture cannot be read: <why>".
  [[noreturn]] void fail(std::string_view why) const;
  [[noreturn]] void refuse(std::string_view what) const;  // kUnsupported

 private:
  using Clock = std::chrono::steady_clock;
  Format format_;
  const Limits& limits_;
  Clock::time_point end_;
};

struct Decoded {
  Picture picture;
  int orientation = 1;  // of EXIF: 1 to 8
};

// The size before it is turned, from the header.
struct Header {
  Size size;
  int orientation = 1;
};

// Each format has these two.
Header png_header(std::string_view bytes, const Work& work);
Decoded decode_png(std::string_view bytes, const Work& work);
Header jpeg_header(std::string_view bytes, const Work& work);
Decoded decode_jpeg(std::string_view bytes, const Work& work);
Header webp_header(std::string_view bytes, const Work& work);
Decoded decode_webp(std::string_view bytes, const Work& work);
Header gif_header(std::string_view bytes, const Work& work);
Decoded decode_gif(std::string_view bytes, const Work& work);
Header bmp_header(std::string_view bytes, const Work& work);
Decoded decode_bmp(std::string_view bytes, const Work& work);

// White pixels. REQUIRES: work.check_size().
Picture white(Size size);

// One row of RGBA on white.
void put_on_white(const uint8_t* rgba, size_t n_pixels, uint8_t* rgb) noexcept;

}  // namespace billow::image

// Shared parts of the decoders. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "image/picture.h"

namespace billow::image {

// One decoding, with its limits and its deadline.
class Work {
 public:
  Work(Format format, const Limits& limits)
      : format_(format), limits_(limits), end_(Clock::now() + limits.max_time) {}

  // Throws Error: kTooLarge for more pixels than allowed, kInvalidInput for no pixels. REQUIRED
  // before memory for pixels is allocated.
  void check_size(uint64_t width, uint64_t height) const;
  // Throws Error (kTooLarge) after the deadline.
  void check_time() const;
  bool is_late() const noexcept { return Clock::now() > end_; }
  [[noreturn]] void fail_late() const;
  // Throws Error (kInvalidInput): "the PNG picture cannot be read: <why>".
  [[noreturn]] void fail(std::string_view why) const;
  [[noreturn]] void refuse(std::string_view what) const;  // throws Error (kUnsupported)

 private:
  using Clock = std::chrono::steady_clock;
  Format format_;
  const Limits& limits_;
  Clock::time_point end_;
};

struct Decoded {
  Picture picture;
  int orientation = 1;  // from EXIF: 1 to 8
};

// The size in the header, before the picture is rotated.
struct Header {
  Size size;
  int orientation = 1;
};

// Each format has a header function and a decode function.
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

// Returns a picture of white pixels. REQUIRES: work.check_size().
Picture white(Size size);

// Blends one row of RGBA onto white.
void put_on_white(const uint8_t* rgba, size_t n_pixels, uint8_t* rgb) noexcept;

}  // namespace billow::image

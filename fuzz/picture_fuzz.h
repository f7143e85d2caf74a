// The shared code of the picture targets.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "image/picture.h"

namespace billow::image {

// Decodes the bytes if they have the format. The size in the header must equal the size of the
// pixels, and the encoded pixels must decode to the same pixels.
inline int fuzz_picture(Format format, const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (find_format(bytes) != format) return -1;
  // More pixels would only take longer.
  const Limits limits{.max_pixels = 1 << 14, .max_time = std::chrono::milliseconds(2000)};
  Picture picture;
  try {
    picture = decode(bytes, limits);
  } catch (const Error&) {
    return 0;
  }
  if (picture.rgb.size() != size_t{picture.size.width} * picture.size.height * 3) std::abort();
  if (size_of(bytes, limits) != picture.size) std::abort();
  if (decode(encode_png(picture)).rgb != picture.rgb) std::abort();
  return 0;
}

}  // namespace billow::image

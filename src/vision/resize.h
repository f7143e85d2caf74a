// Resizes 8-bit RGB pictures exactly like the image processors of models: with antialiasing, first
// along the rows, then along the columns, rounded to 8 bits after each step. Pure functions; any
// thread.
//
// Both values of Arithmetic use the same filters and differ in the precision of their weights:
// - kPillow: 22 bits. Source: Pillow up to version 12, src/libImaging/Resample.c.
//   Pillow 13 resizes the columns first if this is faster.
//   Results of Pillow 13 can therefore differ by some grey levels.
// - kTorch: as many bits as the largest weight leaves in an int16. This is how PyTorch resizes
//   uint8 tensors on CPUs, and so how torchvision's resize() does it. Source: PyTorch,
//   aten/src/ATen/native/cpu/UpSampleKernel.cpp.
// Results of the two differ by at most a few grey levels.
#pragma once

#include <cstdint>

#include "image/picture.h"

namespace billow::vision {

enum class Filter : uint8_t { kBilinear, kBicubic, kLanczos };
enum class Arithmetic : uint8_t { kPillow, kTorch };

// Limits of one resize() call. They bound its memory.
inline constexpr uint32_t kMaxSide = 1 << 16;             // pixels, of both sizes
inline constexpr uint64_t kMaxResizePixels = 1 << 26;     // of the result, at 3 bytes each
inline constexpr uint64_t kMaxResizeRowPixels = 1 << 26;  // new width x old height, 3 bytes each

// Throws Error before any allocation: kInvalidInput if a size has no pixels, kTooLarge beyond the
// limits above.
void check_resize(image::Size from, image::Size to);

// Returns the picture in its new size. Returns a copy if the size is the same. Throws the errors of
// check_resize(). REQUIRES: picture.rgb has 3 bytes for each pixel.
image::Picture resize(const image::Picture& picture, image::Size size, Filter filter,
                      Arithmetic arithmetic);

}  // namespace billow::vision

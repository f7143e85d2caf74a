#include "vision/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace billow::vision {
namespace {

using image::Picture;
using image::Size;

double bilinear(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

struct Kernel {
  double (*weight)(double x);
  double support;  // weight() is 0 beyond this distance
};

// In the order of Filter.
constexpr std::array<Kernel, 3> kKernels{{{bilinear, 1}, {bicubic, 2}, {lanczos, 3}}};

// The weights along one axis: pixel i of the result is the sum of `count[i]` pixels from `first[i]`
// on, multiplied by weights[i * n_taps...], divided by 2^bits.
struct Taps {
  size_t n_taps = 0;
  unsigned bits = 0;
  std::vector<size_t> first;
  std::vector<size_t> count;
  std::vector<int32_t> weights;

  const int32_t* of(size_t i) const { return weights.data() + i * n_taps; }
};

// The number of bits with which the largest weight fits in an int16.
unsigned int16_bits(double largest) {
  unsigned bits = 0;
  while (bits < 22 && 0.5 + largest * static_cast<double>(int64_t{1} << (bits + 1)) < (1 << 15))
    ++bits;
  return bits;
}

Taps taps_of(uint32_t n_in, uint32_t n_out, Filter filter, Arithmetic arithmetic) {
  const Kernel& kernel = kKernels[static_cast<size_t>(filter)];
  const double scale = static_cast<double>(n_in) / n_out;
  const double stretch = std::max(scale, 1.0);
  const double support = kernel.support * stretch;
  Taps taps;
  taps.n_taps = static_cast<size_t>(std::ceil(support)) * 2 + 1;
  taps.first.resize(n_out);
  taps.count.resize(n_out);
  std::vector<double> exact(n_out * taps.n_taps);
  double largest = 0;
  for (size_t i = 0; i < n_out; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const double begin = std::max(center - support + 0.5, 0.0);
    const double end = std::min(center + support + 0.5, static_cast<double>(n_in));
    taps.first[i] = static_cast<size_t>(begin);
    taps.count[i] = std::min(static_cast<size_t>(end) - taps.first[i], taps.n_taps);
    double* weights = exact.data() + i * taps.n_taps;
    double sum = 0;
    for (size_t k = 0; k < taps.count[i]; ++k) {
      const double distance = static_cast<double>(k + taps.first[i]) - center + 0.5;
      weights[k] = kernel.weight(distance * (1 / stretch));
      sum += weights[k];
    }
    for (size_t k = 0; k < taps.count[i]; ++k) {
      if (sum != 0) weights[k] /= sum;
      largest = std::max(largest, weights[k]);
    }
  }
  taps.bits = arithmetic == Arithmetic::kPillow ? 22 : int16_bits(largest);
  taps.weights.resize(exact.size());
  std::ranges::transform(exact, taps.weights.begin(), [&taps](double weight) {
    weight *= 1 << taps.bits;
    return static_cast<int32_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
  });
  return taps;
}

uint8_t rounded(int32_t sum, unsigned bits) {
  return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255));
}

Picture resize_rows(const Picture& picture, uint32_t width, const Taps& taps) {
  const size_t n_rows = picture.size.height;
  Picture out{.size = {width, picture.size.height}, .rgb = {}};
  out.rgb.resize(size_t{width} * n_rows * 3);
  uint8_t* to = out.rgb.data();
  for (size_t y = 0; y < n_rows; ++y) {
    const uint8_t* row = picture.rgb.data() + y * picture.size.width * 3;
    for (size_t x = 0; x < width; ++x, to += 3) {
      std::array<int32_t, 3> sum;
      sum.fill(1 << (taps.bits - 1));
      const uint8_t* from = row + taps.first[x] * 3;
      const int32_t* weights = taps.of(x);
      for (size_t k = 0; k < taps.count[x]; ++k, from += 3)
        for (size_t c = 0; c < 3; ++c) sum[c] += weights[k] * from[c];
      for (size_t c = 0; c < 3; ++c) to[c] = rounded(sum[c], taps.bits);
    }
  }
  return out;
}

Picture resize_columns(const Picture& picture, uint32_t height, const Taps& taps) {
  const size_t row_bytes = size_t{picture.size.width} * 3;
  Picture out{.size = {picture.size.width, height}, .rgb = {}};
  out.rgb.resize(row_bytes * height);
  std::vector<int32_t> sums(row_bytes);
  for (size_t y = 0; y < height; ++y) {
    std::ranges::fill(sums, 1 << (taps.bits - 1));
    for (size_t k = 0; k < taps.count[y]; ++k) {
      const uint8_t* from = picture.rgb.data() + (taps.first[y] + k) * row_bytes;
      const int32_t weight = taps.of(y)[k];
      for (size_t i = 0; i < row_bytes; ++i) sums[i] += weight * from[i];
    }
    uint8_t* to = out.rgb.data() + y * row_bytes;
    for (size_t i = 0; i < row_bytes; ++i) to[i] = rounded(sums[i], taps.bits);
  }
  return out;
}

std::string text_of(Size size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

}  // namespace

void check_resize(Size from, Size to) {
  const std::string what =
      "a picture of " + text_of(from) + " pixels cannot be resized to " + text_of(to);
  if (from.width == 0 || from.height == 0 || to.width == 0 || to.height == 0)
    throw Error(ErrorCode::kInvalidInput, what + ": a side has no pixels");
  if (std::max({from.width, from.height, to.width, to.height}) > kMaxSide)
    throw Error(ErrorCode::kTooLarge,
                what + ": a side is longer than " + std::to_string(kMaxSide) + " pixels");
  if (uint64_t{to.width} * to.height > kMaxResizePixels ||
      uint64_t{to.width} * from.height > kMaxResizeRowPixels)
    throw Error(ErrorCode::kTooLarge, what + ": this takes too much memory; reduce its size");
}

Picture resize(const Picture& picture, Size size, Filter filter, Arithmetic arithmetic) {
  check_resize(picture.size, size);
  BILLOW_CHECK(picture.rgb.size() == size_t{picture.size.width} * picture.size.height * 3);
  if (picture.size.width == size.width && picture.size.height == size.height) return picture;
  if (picture.size.width == size.width)
    return resize_columns(picture, size.height,
                          taps_of(picture.size.height, size.height, filter, arithmetic));
  Picture wide =
      resize_rows(picture, size.width, taps_of(picture.size.width, size.width, filter, arithmetic));
  if (wide.size.height == size.height) return wide;
  return resize_columns(wide, size.height,
                        taps_of(wide.size.height, size.height, filter, arithmetic));
}

}  // namespace billow::vision

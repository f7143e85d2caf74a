#include "quantize/number_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "quantize/encode.h"

namespace billow::quantize {
namespace {

constexpr float kSurelyFits = 16384.0f;  // no type turns smaller numbers into infinity

// Returns the largest bits without the sign. Numbers in these bits are in the order of their
// magnitudes, NaN is above infinity, and compilers vectorise the maximum of integers.
template <class Bits>
Bits largest_bits(const std::byte* numbers, size_t n) noexcept {
  constexpr auto kMagnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  Bits largest = 0;
  for (size_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, numbers + i * sizeof bits, sizeof bits);
    bits = static_cast<Bits>(bits & kMagnitude);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

bool are_scales_numbers(std::span<const std::byte> rows, size_t group_bytes, size_t n_scales,
                        std::byte max) noexcept {
  for (size_t at = 0; at < rows.size(); at += group_bytes) {
    const auto scales = rows.subspan(at, n_scales);
    if (std::ranges::any_of(scales, [max](std::byte scale) { return scale > max; })) return false;
  }
  return true;
}

}  // namespace

float largest_magnitude(std::span<const float> values) noexcept {
  const auto* numbers = reinterpret_cast<const std::byte*>(values.data());
  return std::bit_cast<float>(largest_bits<int32_t>(numbers, values.size()));
}

bool are_finite(quant::Type type, std::span<const std::byte> rows) noexcept {
  constexpr int32_t kInfinity = 0x7F800000;
  constexpr int16_t kInfinityF16 = 0x7C00;
  constexpr int16_t kInfinityBf16 = 0x7F80;
  constexpr std::byte kMaxExponent{252};  // of MXFP4: larger ones are NaN or make infinity
  constexpr std::byte kMaxScale{0x7E};    // of NVFP4: the next one is NaN
  switch (type) {
    case quant::Type::kF32:
      return largest_bits<int32_t>(rows.data(), rows.size() / sizeof(int32_t)) < kInfinity;
    case quant::Type::kF16:
      return largest_bits<int16_t>(rows.data(), rows.size() / sizeof(int16_t)) < kInfinityF16;
    case quant::Type::kBF16:
      return largest_bits<int16_t>(rows.data(), rows.size() / sizeof(int16_t)) < kInfinityBf16;
    case quant::Type::kMXFP4:
      return are_scales_numbers(rows, quant::row(type).group_bytes, 1, kMaxExponent);
    case quant::Type::kNVFP4:
      return are_scales_numbers(rows, quant::row(type).group_bytes, 4, kMaxScale);
    default:
      return true;
  }
}

Fault encode_checked(quant::Type type, std::span<float> values, size_t row_len,
                     const float* importance, std::byte* out) noexcept {
  const float largest = largest_magnitude(values);
  if (!std::isfinite(largest)) return Fault::kNotFinite;
  encode_rows(type, {values, row_len, importance}, out);
  if (largest <= kSurelyFits && importance == nullptr) return Fault::kNone;
  quant::row(type).decode(out, values.size(), values.data());
  if (std::isfinite(largest_magnitude(values))) return Fault::kNone;
  return largest > kSurelyFits ? Fault::kTooLarge : Fault::kImportance;
}

void throw_fault(Fault fault, std::string_view tensor, quant::Type type) {
  const std::string type_name(quant::row(type).name);
  std::string what = "that are not finite; the model is damaged, so get its files again";
  if (fault == Fault::kTooLarge) {
    what = "that are too large for " + type_name + "; use ";
    what += type == quant::Type::kBF16 ? "F32" : "F32 or BF16";
  } else if (fault == Fault::kImportance) {
    what = "that are not finite as " + type_name +
           " with this importance matrix; measure the matrix again with billow imatrix";
  }
  throw Error(ErrorCode::kInvalidInput, "tensor '" + std::string(tensor) + "' has numbers " + what);
}

}  // namespace billow::quantize

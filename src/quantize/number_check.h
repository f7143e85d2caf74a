// Checks that the numbers of a tensor are finite, and that they stay finite in the type of the new
// file. The converter and the quantiser share these checks. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/type.h"

namespace billow::quantize {

enum class Fault : uint8_t {
  kNone,
  kNotFinite,   // a number is infinite or NaN
  kTooLarge,    // a number would become infinite in the type
  kImportance,  // the importance would make a number infinite or NaN
};

// Returns the largest magnitude. It is NaN if a number is NaN.
float largest_magnitude(std::span<const float> values) noexcept;

// Returns whether all numbers of encoded rows are finite. Reads numbers of F32, F16 and BF16, and
// scales of MXFP4 and NVFP4. Other types count as finite.
bool are_finite(quant::Type type, std::span<const std::byte> rows) noexcept;

// Writes the bytes of all rows like encode_rows(), unless there is a fault. May overwrite `values`.
// REQUIRES: the same as encode_rows(); the importance may be null.
Fault encode_checked(quant::Type type, std::span<float> values, size_t row_len,
                     const float* importance, std::byte* out) noexcept;

// Throws an Error of one line that names the tensor and says what to do. REQUIRES: not kNone.
[[noreturn]] void throw_fault(Fault fault, std::string_view tensor, quant::Type type);

}  // namespace billow::quantize

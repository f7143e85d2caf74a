// How rows of the new file are made from a tensor of the checkpoint: which rows, transposed or not,
// and the arithmetic on each number. Plain data, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "convert/safetensors.h"

namespace billow::convert {

// Maps an index in the result to an index in the source. Empty: the identity.
using PlaceMap = std::function<uint64_t(uint64_t)>;
constexpr uint64_t kNoPlace = UINT64_MAX;  // a row of zeros

enum class Arithmetic : uint8_t { kAdd, kMultiply, kMinusExp };

// One operation in 32-bit floats. kMultiply uses `factor_of(row)` of the result row if it is set.
struct ArithmeticStep {
  Arithmetic what;
  float operand = 0;
  std::function<float(uint64_t)> factor_of{};
};

struct TensorPart {
  const SafeTensor* source = nullptr;
  const SafeTensor* scales = nullptr;  // MXFP4: `source` has packed codes; row_len is in bytes
  uint64_t row_len = 0;                // of the source's rows
  PlaceMap row_of;                     // which source rows, before transposing
  uint64_t n_rows = 0;                 // of the result
  uint64_t turned_rows = 0;  // matrices of this many source rows are transposed; 0: no transposing
  PlaceMap turned_row_of;    // which rows of the transposed matrices
  PlaceMap column_of;        // which column, in each row of the result
  std::vector<ArithmeticStep> steps;

  uint64_t result_row_len() const { return turned_rows == 0 ? row_len : turned_rows; }
};

}  // namespace billow::convert

// How rows of the new file come from a tensor of the checkpoint: which rows, turned or not, and
// what is done to each number. Plain data; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "convert/safetensors.h"

namespace billow::convert {

// The place that something has in the source, by its place in the result. Empty: the same.
using PlaceMap = std::function<uint64_t(uint64_t)>;
constexpr uint64_t kNoPlace = UINT64_MAX;  // a row of zeros

enum class Arithmetic : uint8_t { kAdd, kMultiply, kMinusExp };

// One operation in 32-bit floats. kMultiply takes `factor_of(row)` of the result where it is there.
struct ArithmeticStep {
  Arithmetic what;
  float operand = 0;
  std::function<float(uint64_t)> factor_of{};
};

struct TensorPart {
  const SafeTensor* source = nullptr;
  const SafeTensor* scales = nullptr;  // MXFP4: `source` has packed codes; row_len is in bytes
  uint64_t row_len = 0;                // of the source's rows, as they are read
  PlaceMap row_of;                     // which of its rows, before they are turned
  uint64_t n_rows = 0;                 // of the result
  uint64_t turned_rows = 0;            // so many read rows are a matrix that is turned; 0: none is
  PlaceMap turned_row_of;              // which rows of the turned matrices
  PlaceMap column_of;                  // in each row of the result
  std::vector<ArithmeticStep> steps;

  uint64_t result_row_len() const { return turned_rows == 0 ? row_len : turned_rows; }
};

}  // namespace billow::convert

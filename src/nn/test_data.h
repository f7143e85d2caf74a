// Shared inputs of the tests.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/test_data.h"
#include "quant/type.h"

namespace billow::nn {

using kernels::gaussian;

// Returns `values` as weights of this type.
inline std::vector<std::byte> encoded(quant::Type type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(quant::row_bytes(type, values.size()));
  quant::row(type).encode(values.data(), values.size(), bytes.data());
  return bytes;
}

}  // namespace billow::nn

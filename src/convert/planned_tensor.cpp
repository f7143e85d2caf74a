#include "convert/planned_tensor.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace billow::convert {
namespace {

std::string shape_text(std::initializer_list<uint64_t> shape) {
  std::string text;
  for (const uint64_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

}  // namespace

const SafeTensor* require_tensor(Weights& weights, const std::string& name,
                                 std::initializer_list<uint64_t> shape) {
  const SafeTensor* tensor = weights.take(name);
  if (tensor == nullptr) {
    throw Error(ErrorCode::kInvalidInput, "tensor '" + name + "' is missing");
  }
  if (!std::ranges::equal(tensor->shape, shape)) {
    throw Error(ErrorCode::kInvalidInput, "tensor '" + name + "' does not have the shape " +
                                              shape_text(shape) + " that config.json requires");
  }
  require_known_type(*tensor, name);
  return tensor;
}

void require_known_type(const SafeTensor& tensor, std::string_view name) {
  for (const std::string_view known : {"F32", "F16", "BF16", "NVFP4"})
    if (tensor.dtype == known) return;
  throw Error(ErrorCode::kUnsupported, "tensor '" + std::string(name) + "' is of the type " +
                                           std::string(tensor.dtype) +
                                           ", which cannot be converted (known: F32, F16, BF16)");
}

uint32_t n_rows_of(const Weights& weights, std::string_view name) {
  const SafeTensor* table = weights.find(name);
  const bool fits = table != nullptr && table->shape.size() == 2 && table->shape[0] > 0 &&
                    table->shape[0] <= uint64_t{std::numeric_limits<int32_t>::max()};
  if (!fits) {
    throw Error(ErrorCode::kInvalidInput, "tensor '" + std::string(name) + "' is " +
                                              (table == nullptr ? "missing" : "not a matrix"));
  }
  return static_cast<uint32_t>(table->shape[0]);
}

std::string filled(std::string_view pattern, uint32_t layer) {
  std::string text(pattern);
  if (const size_t at = text.find('#'); at != std::string::npos) {
    text.replace(at, 1, std::to_string(layer));
  }
  return text;
}

}  // namespace billow::convert

#include "convert/encoded_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/half.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

namespace billow::convert {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

quant::Type source_type(const SafeTensor& tensor) {
  if (tensor.dtype == "F32") return quant::Type::kF32;
  return tensor.dtype == "F16" ? quant::Type::kF16 : quant::Type::kBF16;
}

void check_range(const std::string& name, std::span<const float> values) {
  constexpr float kMostOfF16 = 65519.996F;  // what is beyond it rounds to infinity
  for (const float value : values) {
    if (!(std::abs(value) > kMostOfF16) || std::isinf(value)) continue;
    throw Error(ErrorCode::kTooLarge, "tensor '" + name + "' has numbers that F16 cannot hold; " +
                                          "quantize to F32 or BF16");
  }
}

}  // namespace

void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink) {
  const quant::Type source = source_type(*tensor.source);
  const auto row_len = static_cast<size_t>(tensor.row_len);
  const size_t source_row_bytes = quant::row_bytes(source, row_len);
  const size_t rows_at_once = std::max<size_t>(1, kPieceElements / row_len);
  std::vector<std::byte> bytes;
  std::vector<std::byte> encoded;
  std::vector<float> values;
  for (uint64_t at = 0; at < tensor.n_rows;) {
    const auto n_rows = static_cast<size_t>(std::min<uint64_t>(rows_at_once, tensor.n_rows - at));
    bytes.resize(n_rows * source_row_bytes);
    weights.read(*tensor.source, (tensor.first_row + at) * source_row_bytes, bytes);
    at += n_rows;
    if (source == type) {
      sink(bytes);
      continue;
    }
    values.resize(n_rows * row_len);
    quant::row(source).decode(bytes.data(), values.size(), values.data());
    if (type == quant::Type::kF16) check_range(tensor.name, values);
    encoded.resize(n_rows * quant::row_bytes(type, row_len));
    quant::row(type).encode(values.data(), values.size(), encoded.data());
    sink(encoded);
  }
}

}  // namespace billow::convert

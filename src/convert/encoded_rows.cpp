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
  if (tensor.dtype == "NVFP4") return quant::Type::kNVFP4;
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

// The rows of each head in pairs: of the two halves, in turn.
void pair_rows(std::span<std::byte> bytes, size_t head_rows, size_t row_bytes) {
  const size_t head_bytes = head_rows * row_bytes;
  std::vector<std::byte> head(head_bytes);
  for (size_t at = 0; at < bytes.size(); at += head_bytes) {
    std::byte* rows = bytes.data() + at;
    std::memcpy(head.data(), rows, head_bytes);
    for (size_t i = 0; i < head_rows / 2; ++i) {
      std::memcpy(rows + 2 * i * row_bytes, head.data() + i * row_bytes, row_bytes);
      std::memcpy(rows + (2 * i + 1) * row_bytes, head.data() + (head_rows / 2 + i) * row_bytes,
                  row_bytes);
    }
  }
}

void write_values(const PlannedTensor& tensor, quant::Type type, const gguf::Writer::Sink& sink) {
  std::vector<std::byte> encoded(quant::row_bytes(type, static_cast<size_t>(tensor.row_len)) *
                                 tensor.n_rows);
  quant::row(type).encode(tensor.values.data(), tensor.values.size(), encoded.data());
  sink(encoded);
}

}  // namespace

void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink) {
  if (tensor.source == nullptr) return write_values(tensor, type, sink);
  const quant::Type source = source_type(*tensor.source);
  const auto row_len = static_cast<size_t>(tensor.row_len);
  const size_t source_row_bytes = quant::row_bytes(source, row_len);
  // Whole heads, where their rows change places.
  const auto unit = static_cast<size_t>(std::max<uint64_t>(1, tensor.paired_rows));
  const size_t rows_at_once = std::max<size_t>(1, kPieceElements / row_len / unit) * unit;
  std::vector<std::byte> bytes;
  std::vector<std::byte> encoded;
  std::vector<float> values;
  for (uint64_t at = 0; at < tensor.n_rows;) {
    const auto n_rows = static_cast<size_t>(std::min<uint64_t>(rows_at_once, tensor.n_rows - at));
    bytes.resize(n_rows * source_row_bytes);
    weights.read(*tensor.source, (tensor.first_row + at) * source_row_bytes, bytes);
    at += n_rows;
    if (tensor.paired_rows != 0)
      pair_rows(bytes, static_cast<size_t>(tensor.paired_rows), source_row_bytes);
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

#include "convert/encoded_rows.h"

#include <algorithm>
#include <string>
#include <vector>

#include "convert/part_rows.h"

namespace billow::convert {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

void write_values(const PlannedTensor& tensor, quant::Type type, const gguf::Writer::Sink& sink) {
  std::vector<std::byte> encoded(quant::row_bytes(type, static_cast<size_t>(tensor.row_len)) *
                                 tensor.n_rows);
  quant::row(type).encode(tensor.values.data(), tensor.values.size(), encoded.data());
  sink(encoded);
}

}  // namespace

void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink) {
  if (!tensor.parts.empty()) {
    for (const TensorPart& part : tensor.parts) write_part(weights, part, tensor.name, type, sink);
    return;
  }
  if (tensor.source == nullptr) return write_values(tensor, type, sink);
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
    if (type == quant::Type::kF16) check_f16_range(tensor.name, values);
    encoded.resize(n_rows * quant::row_bytes(type, row_len));
    quant::row(type).encode(values.data(), values.size(), encoded.data());
    sink(encoded);
  }
}

}  // namespace billow::convert

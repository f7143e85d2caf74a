#include "convert/encoded_rows.h"

#include <algorithm>
#include <vector>

#include "convert/part_rows.h"
#include "convert/row_sink.h"

namespace billow::convert {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

}  // namespace

void write_encoded_rows(const Weights& weights, const PlannedTensor& tensor, quant::Type type,
                        const gguf::Writer::Sink& sink) {
  RowSink out(tensor.name, type, sink);
  if (!tensor.parts.empty()) {
    for (const TensorPart& part : tensor.parts) write_part(weights, part, out);
    return;
  }
  std::vector<float> values = tensor.values;
  if (tensor.source == nullptr) {
    if (!values.empty()) out.encode(values, static_cast<size_t>(tensor.row_len));
    return;
  }
  const quant::Type source = source_type(*tensor.source);
  const auto row_len = static_cast<size_t>(tensor.row_len);
  const size_t source_row_bytes = quant::row_bytes(source, row_len);
  const size_t rows_at_once = std::max<size_t>(1, kPieceElements / row_len);
  std::vector<std::byte> bytes;
  for (uint64_t at = 0; at < tensor.n_rows;) {
    const auto n_rows = static_cast<size_t>(std::min<uint64_t>(rows_at_once, tensor.n_rows - at));
    bytes.resize(n_rows * source_row_bytes);
    weights.read(*tensor.source, (tensor.first_row + at) * source_row_bytes, bytes);
    at += n_rows;
    if (source == type) {
      out.copy(bytes);
      continue;
    }
    values.resize(n_rows * row_len);
    quant::row(source).decode(bytes.data(), values.size(), values.data());
    out.encode(values, row_len);
  }
}

}  // namespace billow::convert

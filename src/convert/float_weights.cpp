#include "convert/float_weights.h"

#include <cstddef>
#include <span>
#include <vector>

#include "quant/type.h"

namespace billow::convert {
namespace {

constexpr auto kF32 = static_cast<uint32_t>(quant::Type::kF32);

}  // namespace

uint64_t float_weight_bytes(const gguf::File& file) {
  uint64_t sum = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) sum += tensor.n_elements() * sizeof(float);
  return sum;
}

gguf::Writer with_float_weights(const gguf::File& file) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata())
    if (!entry.key.starts_with("split.")) writer.set(entry.key, entry.value);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::span shape(tensor.shape.data(), tensor.n_dims);
    const quant::TypeRow* type = quant::find_type(tensor.type);
    if (type == nullptr || tensor.type == kF32) {
      writer.add_tensor(tensor.name, tensor.type, shape, tensor.data);
      continue;
    }
    const auto decode = [&tensor, type](const gguf::Writer::Sink& sink) {
      const uint64_t n_cols = tensor.shape[0];
      const size_t row_bytes = quant::row_bytes(type->type, n_cols);
      std::vector<float> row(n_cols);
      for (size_t at = 0; at < tensor.data.size(); at += row_bytes) {
        type->decode(tensor.data.data() + at, n_cols, row.data());
        sink(std::as_bytes(std::span(row)));
      }
    };
    writer.add_tensor(tensor.name, kF32, shape, decode);
  }
  return writer;
}

}  // namespace billow::convert

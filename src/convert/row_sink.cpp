#include "convert/row_sink.h"

#include <cmath>
#include <utility>

#include "convert/tensor_name.h"
#include "quantize/number_check.h"

namespace billow::convert {

using quantize::Fault;

RowSink::RowSink(std::string name, quant::Type type, const gguf::Writer::Sink& sink)
    : name_(std::move(name)),
      type_(type),
      may_be_infinite_(type == quant::Type::kF32 && is_limit(name_)),
      sink_(sink) {}

void RowSink::copy(std::span<const std::byte> rows) {
  if (may_be_infinite_) {
    std::vector<float> values(rows.size() / sizeof(float));
    quant::row(type_).decode(rows.data(), values.size(), values.data());
    return write_limits(values);
  }
  if (!quantize::are_finite(type_, rows)) quantize::throw_fault(Fault::kNotFinite, name_, type_);
  sink_(rows);
}

void RowSink::encode(std::span<float> values, size_t row_len) {
  if (may_be_infinite_) return write_limits(values);
  encoded_.resize(values.size() / row_len * quant::row_bytes(type_, row_len));
  const Fault fault = quantize::encode_checked(type_, values, row_len, nullptr, encoded_.data());
  if (fault != Fault::kNone) quantize::throw_fault(fault, name_, type_);
  sink_(encoded_);
}

// An infinite limit means that there is none. NaN is an error.
void RowSink::write_limits(std::span<const float> values) {
  if (std::isnan(quantize::largest_magnitude(values)))
    quantize::throw_fault(Fault::kNotFinite, name_, type_);
  sink_(std::as_bytes(values));
}

}  // namespace billow::convert

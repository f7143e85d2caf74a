#include "reference/tensor_maker.h"

namespace billow::reference {
namespace {

quant::Type fitting(quant::Type type, uint64_t n_in) {
  if (n_in % quant::row(type).group_len == 0) return type;
  return n_in % 32 == 0 ? quant::Type::kQ8_0 : quant::Type::kF32;
}

}  // namespace

float Random::next() {
  const uint64_t bits = next_bits();
  int32_t sum = 0;
  for (int shift = 0; shift < 64; shift += 16) {
    sum += static_cast<int32_t>((bits >> shift) & 0xFFFF) - 32768;
  }
  constexpr float kUnit = 1.0f / 37837.0f;  // sqrt(4 * 65536^2 / 12)
  return static_cast<float>(sum) * kUnit;
}

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Random::next_bits() {
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void TensorMaker::vector(const std::string& name, uint64_t n, float mean, float deviation) {
  std::vector<float> values(n);
  for (float& value : values) value = mean + deviation * random_.next();
  vector(name, values);
}

void TensorMaker::vector(const std::string& name, const std::vector<float>& values) {
  const uint64_t shape[] = {values.size()};
  add(name, quant::Type::kF32, shape, values);
}

void TensorMaker::matrix(const std::string& name, quant::Type type, uint64_t n_in, uint64_t n_out,
                         float deviation) {
  const uint64_t shape[] = {n_in, n_out};
  std::vector<float> values(n_in * n_out);
  for (float& value : values) value = deviation * random_.next();
  add(name, fitting(type, n_in), shape, values);
}

void TensorMaker::add(const std::string& name, quant::Type type, std::span<const uint64_t> shape,
                      const std::vector<float>& values) {
  const size_t n_in = shape[0];
  const size_t row_bytes = quant::row_bytes(type, n_in);
  std::vector<std::byte>& bytes = kept_.emplace_back(values.size() / n_in * row_bytes);
  for (size_t row = 0; row * n_in < values.size(); ++row) {
    quant::row(type).encode(&values[row * n_in], n_in, &bytes[row * row_bytes]);
  }
  writer_.add_tensor(name, static_cast<uint32_t>(type), shape, bytes);
}

}  // namespace billow::reference

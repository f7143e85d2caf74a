#include "reference/matrix.h"

#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "quant/type.h"

namespace billow::reference {
namespace {

constexpr size_t kLanes = 16;  // independent sums, so that the compiler may vectorise a float sum

const gguf::TensorInfo& find(const gguf::File& file, const std::string& name) {
  const gguf::TensorInfo* info = file.find_tensor(name);
  if (info == nullptr) {
    throw Error(ErrorCode::kInvalidInput, file.path() + " has no tensor " + name);
  }
  return *info;
}

const quant::TypeRow& type_of(const gguf::File& file, const gguf::TensorInfo& info) {
  const quant::TypeRow* type = quant::find_type(info.type);
  if (type == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                file.path() + ": the type of " + info.name + " cannot be decoded");
  }
  return *type;
}

void check_shape(const gguf::File& file, const gguf::TensorInfo& info, uint64_t n_in,
                 uint64_t n_out) {
  if (info.shape[0] != n_in || info.shape[1] != n_out || info.n_elements() != n_in * n_out) {
    throw Error(ErrorCode::kInvalidInput, file.path() + ": " + info.name + " is not " +
                                              std::to_string(n_in) + " x " + std::to_string(n_out));
  }
}

}  // namespace

double dot(const float* a, const float* b, size_t n) noexcept {
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  double total = 0;
  for (const float sum : sums) total += static_cast<double>(sum);
  for (; i < n; ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return total;
}

void in_parallel(size_t n, uint64_t cost, const std::function<void(size_t, size_t)>& work) {
  constexpr uint64_t kWorthThread = 2'000'000;  // about a millisecond
  if (cost < kWorthThread) return work(0, n);
  std::thread other([&] { work(0, n / 2); });
  work(n / 2, n);
  other.join();
}

std::vector<float> read_vector(const gguf::File& file, const std::string& name, uint64_t n) {
  const gguf::TensorInfo& info = find(file, name);
  check_shape(file, info, n, 1);
  std::vector<float> values(n);
  type_of(file, info).decode(info.data.data(), n, values.data());
  return values;
}

Matrix::Matrix(const gguf::File& file, const std::string& name, uint64_t n_in, uint64_t n_out)
    : n_in_(n_in), n_out_(n_out) {
  const gguf::TensorInfo& info = find(file, name);
  check_shape(file, info, n_in, n_out);
  const quant::TypeRow& type = type_of(file, info);
  row_bytes_ = quant::row_bytes(type.type, n_in);
  BILLOW_CHECK(info.data.size() == row_bytes_ * n_out);
  data_ = info.data.data();
  decode_ = type.decode;
}

void Matrix::read_row(uint64_t row, float* out) const noexcept {
  decode_(data_ + row * row_bytes_, n_in_, out);
}

std::vector<float> Matrix::multiply(std::span<const float> in) const {
  const size_t n_tokens = in.size() / n_in_;
  std::vector<float> out(n_tokens * n_out_);
  in_parallel(n_out_, n_tokens * n_in_ * n_out_, [&](size_t begin, size_t end) {
    std::vector<float> weights(n_in_);
    for (size_t row = begin; row < end; ++row) {
      read_row(row, weights.data());
      for (size_t token = 0; token < n_tokens; ++token) {
        out[token * n_out_ + row] =
            static_cast<float>(dot(weights.data(), in.data() + token * n_in_, n_in_));
      }
    }
  });
  return out;
}

}  // namespace billow::reference

// Measures nn::linear with all weight formats and the shapes of small models. Consecutive calls use
// different matrices with the total size of a small model. As in a real model, a matrix is not in
// the caches when it is used again.
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "benchmarks.h"
#include "nn/linear.h"
#include "nn/packed_weights.h"

namespace billow::bench {
namespace {

struct Shape {
  size_t n_out;
  size_t k;
};

constexpr Shape kShapes[] = {{1536, 576}, {576, 1536}, {4864, 896}, {896, 4864}};
constexpr size_t kRows[] = {1, 2, 4, 8, 16, 64, 512};
constexpr size_t kSetBytes = size_t{96} << 20;

std::vector<float> gaussian(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

// Packed matrices of one shape and format, with a total size above that of the caches.
class WeightSet {
 public:
  WeightSet(Rig& rig, const quant::TypeRow& type, Shape shape)
      : data_(quant::row_bytes(type.type, shape.k) * shape.n_out),
        bytes_(nn::PackedWeights::bytes_of(type.type, shape.k, shape.n_out)),
        tensors_(kSetBytes / bytes_ + 1, {data_.data(), type.type, shape.k, shape.n_out, nullptr}),
        packed_(rig.kernels(), tensors_.size() * bytes_, {}) {
    fill(type, shape.k);
    for (tensor::Tensor& tensor : tensors_) packed_.add(tensor);
    rig.team().run([&](int) { packed_.pack(); });
  }
  const tensor::Tensor& next() { return tensors_[i_++ % tensors_.size()]; }
  size_t bytes() const { return bytes_; }  // bytes that one matrix reads

 private:
  // Encodes a few rows and repeats them, because encoders are slow.
  void fill(const quant::TypeRow& type, size_t k) {
    constexpr size_t kEncodedRows = 16;
    const size_t strip = quant::row_bytes(type.type, k) * kEncodedRows;
    for (size_t i = 0; i < kEncodedRows; ++i) {
      type.encode(gaussian(k, static_cast<unsigned>(i)).data(), k,
                  data_.data() + i * strip / kEncodedRows);
    }
    for (size_t at = strip; at < data_.size(); at += strip)
      std::memcpy(data_.data() + at, data_.data(), strip);
  }

  std::vector<std::byte> data_;
  size_t bytes_;
  std::vector<tensor::Tensor> tensors_;
  nn::PackedWeights packed_;
  size_t i_ = 0;
};

// The set of the running benchmark. Benchmarks of one set follow each other.
struct CurrentSet {
  const quant::TypeRow* type = nullptr;
  const Shape* shape = nullptr;
  std::unique_ptr<WeightSet> set;

  WeightSet& get(Rig& rig, const quant::TypeRow& new_type, const Shape& new_shape) {
    if (type != &new_type || shape != &new_shape) {
      set.reset();  // frees the old set first: there is memory for one set
      set = std::make_unique<WeightSet>(rig, new_type, new_shape);
      type = &new_type;
      shape = &new_shape;
    }
    return *set;
  }
};

// Returns the peak of the instructions for this kind of input.
double peak_macs(const Peaks& peaks, kernels::InputKind kind) {
  if (kind == kernels::InputKind::kCodes) return peaks.i8_macs;
  return kind == kernels::InputKind::kBF16 ? peaks.bf16_macs : peaks.f32_macs;
}

void run(benchmark::State& state, Rig& rig, WeightSet& set, const quant::TypeRow& type, Shape shape,
         size_t n_rows) {
  std::vector<float> x = gaussian(n_rows * shape.k, 1);
  std::vector<float> out(n_rows * shape.n_out);
  const nn::Compute compute = rig.compute();
  const Clock::time_point start = Clock::now();
  for (auto _ : state) {
    nn::linear(compute, {x.data(), n_rows, shape.k},
               {{set.next(), nullptr, {out.data(), n_rows, shape.n_out}}});
  }
  const double seconds = seconds_each(state, start);
  const Peaks& peaks = rig.peaks();
  count(state, seconds, peaks, peak_macs(peaks, rig.kernels().of(type.type).input->kind),
        static_cast<double>(n_rows * shape.n_out * shape.k), static_cast<double>(set.bytes()));
}

}  // namespace

void add_linear_benchmarks(std::span<const NamedRig> rigs) {
  const auto current = std::make_shared<CurrentSet>();
  for (const quant::TypeRow& type : quant::types()) {
    if (type.type == quant::Type::kQ8_K) continue;  // for activations, not for weights
    for (const Shape& shape : kShapes) {
      if (shape.k % type.group_len != 0) continue;
      for (const size_t n_rows : kRows) {
        for (const NamedRig& named : rigs) {
          const std::string name = "linear/" + std::string(type.name) + "/" +
                                   std::to_string(shape.n_out) + "x" + std::to_string(shape.k) +
                                   "/rows:" + std::to_string(n_rows) + "/" + named.name;
          benchmark::RegisterBenchmark(
              name.c_str(),
              [current, &type, &shape, n_rows, rig = named.rig](benchmark::State& state) {
                run(state, *rig, current->get(*rig, type, shape), type, shape, n_rows);
              })
              ->UseRealTime()
              ->MinTime(0.05)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace billow::bench

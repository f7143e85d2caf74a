#include "arch/vision/dense.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "nn/for_rows.h"
#include "nn/outliers.h"

namespace billow::arch {
namespace {

void clamp(const nn::Compute& compute, tensor::Matrix x, float min, float max, tensor::Matrix out) {
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    std::transform(x.row(row), x.row(row) + x.n_cols, out.row(row),
                   [=](float value) { return std::clamp(value, min, max); });
  });
}

void multiply_clamped(const nn::Compute& compute, tensor::Matrix x, const DenseProduct& product) {
  const Dense& dense = product.dense;
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix clamped = compute.arena.matrix(x.n_rows, x.n_cols);
  clamp(compute, x, dense.clamp->input_min, dense.clamp->input_max, clamped);
  nn::linear_with_outliers(compute, clamped, {{dense.weight, dense.bias, product.out}});
  clamp(compute, product.out, dense.clamp->output_min, dense.clamp->output_max, product.out);
}

// Sets `limit` to the tensor's only value if the file has the tensor.
bool load_limit(const WeightLoader& load, const std::string& name, float& limit) {
  const float* value = nullptr;
  load.vector(name, value, 1, Presence::kOptional);
  if (value == nullptr) return false;
  if (std::isnan(*value)) {
    throw Error(ErrorCode::kInvalidInput,
                load.file().path() + ": tensor " + name + " is not a number");
  }
  limit = *value;
  return true;
}

}  // namespace

void Dense::load(const WeightLoader& load, const std::string& name, size_t n_cols, size_t n_rows,
                 Presence bias_presence) {
  load.matrix(name + ".weight", weight, n_cols, n_rows);
  load_bias(load, name, n_rows, bias_presence);
}

void Dense::load_bias(const WeightLoader& load, const std::string& name, size_t n_rows,
                      Presence bias_presence) {
  load.vector(name + ".bias", bias, n_rows, bias_presence);
  ClampLimits limits;
  bool has_limit = load_limit(load, name + ".input_min", limits.input_min);
  has_limit |= load_limit(load, name + ".input_max", limits.input_max);
  has_limit |= load_limit(load, name + ".output_min", limits.output_min);
  has_limit |= load_limit(load, name + ".output_max", limits.output_max);
  if (!has_limit) return;
  if (limits.input_min > limits.input_max || limits.output_min > limits.output_max) {
    throw Error(ErrorCode::kInvalidInput, load.file().path() + ": a limit of " + name +
                                              " is below the other: its tensors input_min, "
                                              "input_max, output_min and output_max");
  }
  clamp = limits;
}

void multiply(const nn::Compute& compute, tensor::Matrix x,
              std::initializer_list<DenseProduct> products) {
  const bool any_clamp = std::ranges::any_of(
      products, [](const DenseProduct& product) { return product.dense.clamp.has_value(); });
  const DenseProduct* const p = products.begin();
  const auto plain = [p](size_t i) {
    return nn::Product{p[i].dense.weight, p[i].dense.bias, p[i].out};
  };
  if (!any_clamp && products.size() == 3)
    return nn::linear_with_outliers(compute, x, {plain(0), plain(1), plain(2)});
  if (!any_clamp && products.size() == 2)
    return nn::linear_with_outliers(compute, x, {plain(0), plain(1)});
  for (const DenseProduct& product : products) {
    if (product.dense.clamp)
      multiply_clamped(compute, x, product);
    else
      nn::linear_with_outliers(compute, x,
                               {{product.dense.weight, product.dense.bias, product.out}});
  }
}

Norm load_norm(const Norms& norms, const WeightLoader& load, const std::string& name, size_t n,
               Presence presence) {
  if (load.has(name + ".bias")) presence = Presence::kRequired;
  Norm norm = norms.load(load, name, n, presence);
  if (norm && norm.kind == NormKind::kMean) load.vector(name + ".bias", norm.bias, n);
  return norm;
}

}  // namespace billow::arch

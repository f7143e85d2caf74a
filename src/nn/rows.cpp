#include "nn/rows.h"

#include <algorithm>
#include <functional>

#include "nn/for_rows.h"

namespace billow::nn {
void layer_norm(const Compute& compute, tensor::Matrix x, tensor::Matrix residual,
                const LayerNorm& norm, tensor::Matrix out) {
  for_rows(compute, x.n_rows, [&](size_t i) {
    compute.kernels.layer_norm(x.row(i), residual.data != nullptr ? residual.row(i) : nullptr,
                               norm.weight, norm.bias, x.n_cols, norm.eps, out.row(i));
  });
}

void gelu(const Compute& compute, tensor::Matrix x) {
  for_rows(compute, x.n_rows, [&](size_t i) { compute.kernels.gelu(x.row(i), x.n_cols); });
}

void add(const Compute& compute, tensor::Matrix x, tensor::Matrix y) {
  for_rows(compute, x.n_rows, [&](size_t i) { compute.kernels.add(x.row(i), y.row(i), x.n_cols); });
}

void multiply(const Compute& compute, tensor::Matrix x, tensor::Matrix y) {
  for_rows(compute, x.n_rows, [&](size_t i) {
    std::transform(x.row(i), x.row(i) + x.n_cols, y.row(i), x.row(i), std::multiplies<>());
  });
}

void scale(const Compute& compute, tensor::Matrix x, float factor) {
  for_rows(compute, x.n_rows, [&](size_t i) {
    std::for_each(x.row(i), x.row(i) + x.n_cols, [factor](float& value) { value *= factor; });
  });
}

void silu_multiply(const Compute& compute, tensor::Matrix gate, tensor::Matrix up) {
  for_rows(compute, gate.n_rows,
           [&](size_t i) { compute.kernels.silu_multiply(gate.row(i), up.row(i), gate.n_cols); });
}

void gelu_multiply(const Compute& compute, tensor::Matrix gate, tensor::Matrix up) {
  for_rows(compute, gate.n_rows,
           [&](size_t i) { compute.kernels.gelu_multiply(gate.row(i), up.row(i), gate.n_cols); });
}

void sigmoid_multiply(const Compute& compute, tensor::Matrix x, tensor::Matrix gate) {
  for_rows(compute, x.n_rows,
           [&](size_t i) { compute.kernels.sigmoid_multiply(x.row(i), gate.row(i), x.n_cols); });
}

void softcap(const Compute& compute, tensor::Matrix x, float cap) {
  for_rows(compute, x.n_rows, [&](size_t i) { compute.kernels.softcap(x.row(i), x.n_cols, cap); });
}

void embed(const Compute& compute, const tensor::Tensor& table, const int32_t* ids,
           tensor::Matrix out) {
  const quant::TypeRow& type = quant::row(table.type);
  for_rows(compute, out.n_rows, [&](size_t i) {
    type.decode(table.row(static_cast<size_t>(ids[i])), table.n_cols, out.row(i));
  });
}

}  // namespace billow::nn

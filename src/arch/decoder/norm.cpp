#include "arch/decoder/norm.h"

#include <cmath>

#include "base/error.h"
#include "nn/for_rows.h"

namespace billow::arch {

Norms::Norms(NormKind kind, float eps, size_t width)
    : kind_(kind), eps_(eps), ones_(width, 1.0f), zeros_(width, 0.0f) {}

Norm Norms::load(const WeightLoader& load, const std::string& name, size_t n,
                 Presence presence) const {
  if (kind_ == NormKind::kNoWeight) return {kind_, eps_, ones_.data(), zeros_.data()};
  Norm norm = {.kind = kind_, .eps = eps_};
  const bool has_suffix = load.has(name + ".weight") || !load.has(name);
  load.vector(has_suffix ? name + ".weight" : name, norm.weight, n, presence);
  if (kind_ == NormKind::kRms) return norm;
  load.vector(name + ".bias", norm.bias, n, Presence::kOptional);
  if (norm.bias != nullptr || norm.weight == nullptr) return norm;
  if (n > zeros_.size()) {
    throw Error(ErrorCode::kInvalidInput, load.file().path() + ": norm " + name + " has " +
                                              std::to_string(n) + " values and no bias; at most " +
                                              std::to_string(zeros_.size()) + " are supported");
  }
  norm.bias = zeros_.data();
  return norm;
}

UnitNorm::UnitNorm(size_t n, float eps, float length)
    : weights_(n, length / std::sqrt(static_cast<float>(n))), eps_(eps / static_cast<float>(n)) {}

void apply_to_row(const Norm& norm, const kernels::KernelTable& kernels, const float* x, size_t n,
                  float* out) {
  if (norm.kind == NormKind::kRms)
    kernels.rms_norm(x, norm.weight, n, norm.eps, out);
  else
    kernels.layer_norm(x, nullptr, norm.weight, norm.bias, n, norm.eps, out);
}

void apply(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, tensor::Matrix out) {
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    apply_to_row(norm, compute.kernels, x.row(row), x.n_cols, out.row(row));
  });
}

void apply_to_heads(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, size_t head_len,
                    size_t weight_stride) {
  nn::for_rows(compute, x.n_rows, [&](size_t row) {
    for (size_t h = 0; h < x.n_cols / head_len; ++h) {
      Norm of_head = norm;
      of_head.weight += h * weight_stride;
      if (of_head.bias != nullptr) of_head.bias += h * weight_stride;
      float* const head = x.row(row) + h * head_len;
      apply_to_row(of_head, compute.kernels, head, head_len, head);
    }
  });
}

}  // namespace billow::arch

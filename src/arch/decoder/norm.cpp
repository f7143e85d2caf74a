#include "arch/decoder/norm.h"

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
  if (norm.bias == nullptr) norm.bias = zeros_.data();
  return norm;
}

void apply_to_row(const Norm& norm, const kernels::KernelTable& kernels, const float* x, size_t n,
                  float* out) {
  if (norm.kind == NormKind::kRms)
    kernels.rms_norm(x, norm.weight, n, norm.eps, out);
  else
    kernels.layer_norm(x, nullptr, norm.weight, norm.bias, n, norm.eps, out);
}

void apply(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, tensor::Matrix out) {
  if (compute.sizing != nullptr) return;
  constexpr size_t kRowsAtOnce = 8;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i)
      apply_to_row(norm, compute.kernels, x.row(i), x.n_cols, out.row(i));
  });
}

void apply_to_heads(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, size_t head_len,
                    size_t weight_stride) {
  if (compute.sizing != nullptr) return;
  constexpr size_t kRowsAtOnce = 8;
  const size_t n_heads = x.n_cols / head_len;
  compute.team.for_pieces(x.n_rows, kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t i = begin * n_heads; i < end * n_heads; ++i) {
      Norm of_head = norm;
      of_head.weight += i % n_heads * weight_stride;
      if (of_head.bias != nullptr && weight_stride != 0)
        of_head.bias += i % n_heads * weight_stride;
      apply_to_row(of_head, compute.kernels, x.data + i * head_len, head_len,
                   x.data + i * head_len);
    }
  });
}

}  // namespace billow::arch

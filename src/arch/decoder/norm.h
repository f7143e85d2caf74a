// The norms of decoders, for rows and for heads.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

struct Norm {
  NormKind kind = NormKind::kRms;
  float eps = 0.0f;
  const float* weight = nullptr;  // null: no norm
  const float* bias = nullptr;    // if the kind of norm has a mean

  explicit operator bool() const noexcept { return weight != nullptr; }
};

// Loads the norms of one model. Owns the ones and zeros of norms without weights, and must outlive
// the norms.
class Norms {
 public:
  // `width` is the length of the widest norm.
  Norms(NormKind kind, float eps, size_t width);

  // Loads the norm of n values with the tensors NAME.weight (or NAME) and NAME.bias.
  Norm load(const WeightLoader& load, const std::string& name, size_t n,
            Presence presence = Presence::kRequired) const;
  // Returns an RMS norm without weights.
  Norm plain_rms() const noexcept { return {NormKind::kRms, eps_, ones_.data(), nullptr}; }

 private:
  NormKind kind_;
  float eps_;
  std::vector<float> ones_;
  std::vector<float> zeros_;
};

// Scales n values to a length: x := x * length / sqrt(sum of squares + eps).
class UnitNorm {
 public:
  UnitNorm() = default;
  UnitNorm(size_t n, float eps, float length = 1.0f);
  // REQUIRES: x has n values.
  void apply(const kernels::KernelTable& kernels, float* x) const {
    kernels.rms_norm(x, weights_.data(), weights_.size(), eps_, x);
  }

 private:
  std::vector<float> weights_;  // of an RMS norm with the same result
  float eps_ = 0.0f;
};

// out row = norm(x row). `out` may be x.
void apply(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, tensor::Matrix out);
// Norms one row of n values, on the calling thread.
void apply_to_row(const Norm& norm, const kernels::KernelTable& kernels, const float* x, size_t n,
                  float* out);
// Norms each head of head_len values in place. The weights of head h begin at h * weight_stride.
void apply_to_heads(const Norm& norm, const nn::Compute& compute, tensor::Matrix x, size_t head_len,
                    size_t weight_stride);

}  // namespace billow::arch

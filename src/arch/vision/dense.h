// Weights of picture encoders: matrices with a bias and with limits of inputs and outputs, and
// norms.
#pragma once

#include <initializer_list>
#include <limits>
#include <optional>
#include <string>

#include "arch/decoder/norm.h"
#include "arch/weights.h"
#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::arch {

// Inputs and outputs of a product are clamped to these (Gemma 4).
struct ClampLimits {
  float input_min = -std::numeric_limits<float>::max();
  float input_max = std::numeric_limits<float>::max();
  float output_min = -std::numeric_limits<float>::max();
  float output_max = std::numeric_limits<float>::max();
};

struct Dense {
  tensor::Tensor weight;
  const float* bias = nullptr;  // null: none
  std::optional<ClampLimits> clamp;

  // Loads NAME.weight, [n_rows][n_cols], NAME.bias, and if the file has them, the limits
  // NAME.input_min, input_max, output_min and output_max.
  void load(const WeightLoader& load, const std::string& name, size_t n_cols, size_t n_rows,
            Presence bias_presence);
  // Loads bias and limits only.
  void load_bias(const WeightLoader& load, const std::string& name, size_t n_rows,
                 Presence bias_presence);
};

struct DenseProduct {
  const Dense& dense;
  tensor::Matrix out;  // [x.n_rows][dense.weight.n_rows]
};

// Computes all products of the same input. REQUIRES: no `out` overlaps x.
void multiply(const nn::Compute& compute, tensor::Matrix x,
              std::initializer_list<DenseProduct> products);

// Loads a norm of n values. A layer norm must have both tensors, or none if it is optional.
Norm load_norm(const Norms& norms, const WeightLoader& load, const std::string& name, size_t n,
               Presence presence = Presence::kRequired);

}  // namespace billow::arch

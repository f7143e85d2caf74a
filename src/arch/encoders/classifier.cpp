#include "arch/encoders/classifier.h"

#include <algorithm>
#include <cmath>

#include "nn/activation.h"
#include "nn/linear.h"

namespace billow::arch {
namespace {

// Loads a matrix whose number of rows depends on the file.
void load_part(const WeightLoader& load, const std::string& name, size_t n_cols,
               tensor::Tensor& weight, const float*& bias) {
  const gguf::TensorInfo* info = load.file().find_tensor(name + ".weight");
  if (info == nullptr) return;
  load.matrix(name + ".weight", weight, n_cols, info->shape[1]);
  load.vector(name + ".bias", bias, weight.n_rows, Presence::kOptional);
}

}  // namespace

void ClassifierWeights::load(const WeightLoader& load, const Norms& norms,
                             const ClassifierStyle& its_style, size_t n_embd) {
  style = its_style;
  load_part(load, "cls", n_embd, dense, dense_bias);
  if (dense) norm = norms.load(load, "cls.norm", dense.n_rows, Presence::kOptional);
  load_part(load, "cls.output", dense ? dense.n_rows : n_embd, output, output_bias);
}

void classify(const nn::Compute& compute, const ClassifierWeights& weights, tensor::Matrix x,
              tensor::Matrix scores) {
  const tensor::ArenaScope scope(compute.arena);
  tensor::Matrix state = x;
  if (weights.dense) {
    state = weights.output ? compute.arena.matrix(x.n_rows, weights.dense.n_rows) : scores;
    nn::linear(compute, x, {{weights.dense, weights.dense_bias, state}});
    if (weights.style.activation)
      nn::activate(compute, *weights.style.activation, {}, state);
    else if (compute.sizing == nullptr)
      std::for_each_n(state.data, state.n_rows * state.n_cols,
                      [](float& value) { value = std::tanh(value); });
    if (weights.norm) apply(weights.norm, compute, state, state);
  }
  if (weights.output) nn::linear(compute, state, {{weights.output, weights.output_bias, scores}});
}

}  // namespace billow::arch

// The parts that only Gemma 3n has. With AltUp (Baykal et al., arXiv 2301.13310) a token has
// several states: a layer computes one of them and corrects the others. LAuReL (Menghani et al.,
// arXiv 2411.07501) is a low-rank path in parallel with attention. The states of n rows are a
// matrix of [n_states * n][n_embd], state after state. Layers compute state 0.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

class AltUp {
 public:
  // Throws Error as WeightLoader does.
  AltUp(const AltUpStyle& style, const WeightLoader& load, size_t n_layers, size_t n_embd,
        const Norms& norms);

  // Allocates the states of n rows in the arena.
  tensor::Matrix new_states(const nn::Compute& compute, size_t n) const;
  // Computes the states at the start of a pass from the embedding x.
  void spread(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix states) const;
  // Predicts the states before a layer computes: all of them in `predicted`, and state 0 also in x.
  void predict(const nn::Compute& compute, size_t layer, tensor::Matrix states,
               tensor::Matrix predicted, tensor::Matrix x) const;
  // out = x + norm(R L x) for the normed input x of a layer's attention.
  void laurel(const nn::Compute& compute, size_t layer, tensor::Matrix x, tensor::Matrix out) const;
  // Computes the states after a layer. x is the layer's result for the predicted state 0.
  void correct(const nn::Compute& compute, size_t layer, tensor::Matrix predicted, tensor::Matrix x,
               tensor::Matrix states) const;
  // out = state 0, scaled by the layer's weights.
  void scale_first(const nn::Compute& compute, size_t layer, tensor::Matrix states,
                   tensor::Matrix out) const;
  // Adds x to all states except the first.
  void add_to_others(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix states) const;
  // Computes the result of a pass: the mean of the states.
  void merge(const nn::Compute& compute, tensor::Matrix states, tensor::Matrix x) const;

 private:
  struct Layer {
    std::vector<float> predict;    // [state][from state][router's output]
    std::vector<float> correct;    // [state][router's output]
    const float* scale = nullptr;  // [n_embd]
    tensor::Tensor router;         // [n_states][n_embd]
    Norm router_norm;
    tensor::Tensor left;   // [laurel_rank][n_embd]
    tensor::Tensor right;  // [n_embd][laurel_rank]
    Norm laurel_norm;
  };
  // Returns [n][n_states], from -1 to 1, in the arena.
  tensor::Matrix route(const nn::Compute& compute, const Layer& layer, tensor::Matrix x) const;

  AltUpStyle style_;
  std::vector<tensor::Tensor> spread_;  // for each state except the first: [n_embd][n_embd]
  std::vector<tensor::Tensor> merge_;   // the same shape
  std::vector<Layer> layers_;
};

}  // namespace billow::arch

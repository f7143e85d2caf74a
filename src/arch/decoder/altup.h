// What sets Gemma 3n apart. With AltUp (Baykal et al., arXiv 2301.13310) a token has several
// states: a layer computes one of them and corrects the others. LAuReL (Menghani et al., arXiv
// 2411.07501) is a path of low rank beside the attention. States of n rows are a matrix of
// [n_states * n][n_embd], state after state; state 0 is the one that layers compute.
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

  // Of n rows; its memory is the arena's.
  tensor::Matrix new_states(const nn::Compute& compute, size_t n) const;
  // The states that a pass begins with, from the embedding x.
  void spread(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix states) const;
  // What a layer's states are taken to be before it computes: predicted, and state 0 of it in x.
  void predict(const nn::Compute& compute, size_t layer, tensor::Matrix states,
               tensor::Matrix predicted, tensor::Matrix x) const;
  // out = x + norm(R L x) for the normed input x of a layer's attention.
  void laurel(const nn::Compute& compute, size_t layer, tensor::Matrix x, tensor::Matrix out) const;
  // The states after the layer, which made x of the predicted state 0.
  void correct(const nn::Compute& compute, size_t layer, tensor::Matrix predicted, tensor::Matrix x,
               tensor::Matrix states) const;
  // out = state 0, by the layer's weights.
  void scale_first(const nn::Compute& compute, size_t layer, tensor::Matrix states,
                   tensor::Matrix out) const;
  // All states but the first += x.
  void add_to_others(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix states) const;
  // What a pass ends with: the mean of the states.
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
  // [n][n_states], from -1 to 1; its memory is the arena's.
  tensor::Matrix route(const nn::Compute& compute, const Layer& layer, tensor::Matrix x) const;

  AltUpStyle style_;
  std::vector<tensor::Tensor> spread_;  // of each state but the first: [n_embd][n_embd]
  std::vector<tensor::Tensor> merge_;   // likewise
  std::vector<Layer> layers_;
};

}  // namespace billow::arch

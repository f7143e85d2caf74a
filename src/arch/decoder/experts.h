// The mixture-of-experts feed-forward sub-layer. A router chooses a few experts for each token. The
// token's result is the weighted sum of the experts' results.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "arch/decoder/feed_forward.h"
#include "arch/decoder/norm.h"
#include "arch/decoder/routing.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

class Experts {
 public:
  // Throws Error as WeightLoader does.
  Experts(const ExpertsStyle& style, const WeightLoader& load, const std::string& prefix,
          size_t n_embd);

  // out = sum over the chosen experts of weight * expert(x), plus the shared expert. `routed` is
  // the router's input: x, unless the model says otherwise. All are [n][n_embd]; out may be x.
  //
  // A row's result depends on this row alone, because its experts' results are added in the
  // router's order of preference.
  void forward(const nn::Compute& compute, tensor::Matrix routed, tensor::Matrix x,
               tensor::Matrix out) const;

 private:
  // The rows of a pass, sorted by expert. A slot holds one row for one expert.
  struct Slots {
    std::vector<Choice> choices;  // [row][n_used]
    std::vector<size_t> ends;     // [expert]: the end of its slots
    std::vector<uint32_t> slots;  // [row][n_used]: the slot of each choice
    std::vector<uint32_t> rows;   // [slot]
    std::vector<float> weights;   // [slot]
  };
  Slots route(const nn::Compute& compute, tensor::Matrix routed) const;
  void multiply(const nn::Compute& compute, const Slots& slots, tensor::Matrix x,
                std::span<const uint32_t> rows, tensor::Matrix inner, tensor::Matrix up) const;
  void add_up(const nn::Compute& compute, const Slots& slots, tensor::Matrix results,
              tensor::Matrix out) const;
  void add_shared(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix out) const;

  ExpertsStyle style_;
  size_t width_ = 0;                    // values that experts read and write
  tensor::Tensor latent_down_;          // [width][n_embd], if experts work in a narrower space
  tensor::Tensor latent_up_;            // [n_embd][width]
  tensor::Tensor router_;               // [n_experts][n_embd]
  const float* router_bias_ = nullptr;  // [n_experts], added to logits
  // [n_experts], added to the scores that select experts
  const float* selection_bias_ = nullptr;
  std::vector<tensor::Tensor> gate_;  // one for each expert, as in FeedForwardWeights
  std::vector<tensor::Tensor> up_;
  std::vector<tensor::Tensor> down_;
  const float* gate_bias_ = nullptr;  // [n_experts][n_ff]
  const float* up_bias_ = nullptr;
  const float* down_bias_ = nullptr;  // [n_experts][width]
  FeedForwardWeights shared_;
  tensor::Tensor shared_gate_;  // [1][n_embd]
};

}  // namespace billow::arch

// The two parts of RWKV 7 (Peng et al., arXiv 2503.14456). Each sees, of every value, a mix of its
// row and the row before. The time mix keeps a matrix for each head, in which a row replaces what
// stands at a key; the channel mix is a feed-forward part.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

// The rows before those of a pass. The state is the last row of each sequence.
class TokenShift {
 public:
  explicit TokenShift(size_t n_embd);

  size_t state_floats() const noexcept { return nn::conv_state_floats(kTaps, n_embd_); }
  // out row = the row before x row; 0 at the beginning of a sequence.
  void forward(const nn::Compute& compute, const nn::StatePart& part, tensor::Matrix x,
               tensor::Matrix out) const;

 private:
  static constexpr size_t kTaps = 2;
  size_t n_embd_;
  std::vector<float> weights_;  // of a convolution that takes the row before alone
};

class TimeMix {
 public:
  // Throws Error as WeightLoader does.
  TimeMix(const TimeMixStyle& style, const WeightLoader& load, const std::string& prefix,
          size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward(). The first layer fills pass.first_values, which others read.
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  // up activation(down x) + bias
  struct LowRank {
    tensor::Tensor down;  // [rank][n_embd]
    tensor::Tensor up;    // [n_embd][rank]
    const float* bias = nullptr;
  };
  struct Projected {
    tensor::Matrix queries, decays, keys, values, rates, gates;
  };

  // What is made of the rows x and those before, each by a mix of its own.
  void project(const Pass& pass, tensor::Matrix x, tensor::Matrix before,
               const Projected& out) const;
  // Keys that are taken out of the state, and those that are put in for them; then rates are
  // applied to keys.
  void replace_keys(const nn::Compute& compute, const Projected& rows, tensor::Matrix removed,
                    tensor::Matrix written) const;

  TimeMixStyle style_;
  size_t n_embd_;
  TokenShift shift_;
  nn::ReplacingState state_;
  const float* lerp_ = nullptr;  // [6][n_embd], or [5][n_embd] without gates
  tensor::Tensor receptance_;    // [n_embd][n_embd], as the next two
  tensor::Tensor key_;
  tensor::Tensor value_;
  LowRank decay_;
  LowRank rate_;
  LowRank value_share_;  // not in the first layer
  LowRank gate_;
  const float* removed_scale_ = nullptr;  // [n_embd], as the next two
  const float* rate_scale_ = nullptr;
  const float* bonus_ = nullptr;
  UnitNorm removed_norm_;  // of a head
  Norm head_norm_;
  tensor::Tensor out_;  // [n_embd][n_embd]
};

class ChannelMix {
 public:
  // Its state stands from `first_float` of the layer's on, behind that of the layer's mixer. Throws
  // Error as WeightLoader does.
  ChannelMix(const ChannelMixStyle& style, const WeightLoader& load, const std::string& prefix,
             size_t n_embd, size_t first_float);

  size_t state_floats() const noexcept { return shift_.state_floats(); }
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  ChannelMixStyle style_;
  size_t first_float_;
  TokenShift shift_;
  const float* lerp_ = nullptr;  // [n_embd]
  tensor::Tensor key_;           // [n_ff][n_embd]
  tensor::Tensor value_;         // [n_embd][n_ff]
};

}  // namespace billow::arch

// The two parts of RWKV 7 (Peng et al., arXiv 2503.14456). Each reads a mix of its row and the
// previous row, for every value. The time mix keeps a matrix for each head, in which a row replaces
// the entry of a key. The channel mix is a feed-forward part.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

// Provides the rows before the rows of a pass. The state is the last row of each sequence.
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
  std::vector<float> weights_;  // of a convolution that selects the previous row
};

class TimeMix {
 public:
  // Throws Error as WeightLoader does.
  TimeMix(const TimeMixStyle& style, const WeightLoader& load, const std::string& prefix,
          size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward(). The first layer fills pass.first_values, which the other layers read.
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

  // Computes the projections. Each reads a separate mix of the rows x and the previous rows.
  void project(const Pass& pass, tensor::Matrix x, tensor::Matrix before,
               const Projected& out) const;
  // Computes the keys to remove from the state and the keys to write instead. Then applies the
  // rates to the keys.
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
  UnitNorm removed_norm_;  // norms a head
  Norm head_norm_;
  tensor::Tensor out_;  // [n_embd][n_embd]
};

class ChannelMix {
 public:
  // `first_float` is the offset of its state in the layer's state, after the mixer's state. Throws
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

// The attention sub-layer of decoders: projections, optional norms of query and key heads,
// rotation, KV, and the output projection.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

// Numbers of rows of the projections.
struct AttentionShape {
  size_t n_embd = 0;
  size_t n_q = 0;         // n_heads * k_len; twice that with gates
  size_t n_k = 0;         // n_kv_heads * k_len; 0: the layer has no K and V
  size_t n_v = 0;         // n_kv_heads * v_len; 0: the layer has no V
  size_t n_attended = 0;  // n_heads * v_len: columns of the output projection
};

struct AttentionWeights {
  tensor::Tensor q;  // [n_q][n_embd]
  tensor::Tensor k;  // [n_k][n_embd]
  tensor::Tensor v;  // [n_v][n_embd]
  tensor::Tensor o;  // [n_embd][n_attended]
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* o_bias = nullptr;

  // `prefix` is "blk.0." and so on. Loads three matrices, or one that holds q, k and v in this
  // order. Loads biases if the file has them.
  void load(const WeightLoader& load, const std::string& prefix, const AttentionShape& shape);
};

class Attention {
 public:
  // Throws Error as WeightLoader does.
  Attention(const AttentionStyle& style, const WeightLoader& load, const std::string& prefix,
            size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // out = O(attention(...x)) for layer `index`. x and out are [n][n_embd] and may be the same.
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  struct Heads {
    tensor::Matrix q;
    tensor::Matrix k;
    tensor::Matrix v;
    tensor::Matrix gate;
  };
  Heads project(const Pass& pass, tensor::Matrix x) const;
  void norm_heads(const nn::Compute& compute, const Heads& heads) const;

  AttentionStyle style_;
  AttentionWeights weights_;
  tensor::Tensor gate_;  // [n_heads * v_len][n_embd], if gates have a separate matrix
  Norm q_norm_;
  Norm k_norm_;
  Norm v_norm_;
  size_t q_norm_len_ = 0;  // values that are normed together; 0: no norm
  size_t k_norm_len_ = 0;
  size_t norm_stride_ = 0;  // distance of the weights of adjacent heads
  const float* sinks_ = nullptr;
  std::vector<float> slopes_;  // ALiBi's
};

}  // namespace billow::arch

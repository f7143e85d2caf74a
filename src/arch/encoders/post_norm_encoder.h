// The encoder that BERT and its kin are: the sum of a token's, its position's and its segment's
// embedding, normed; then layers of x = norm(x + attention(x)) and x = norm(x + feed_forward(x)),
// all norms with mean and bias.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/attention.h"
#include "arch/decoder/feed_forward.h"
#include "arch/encoder.h"
#include "arch/encoders/classifier.h"
#include "nn/rope.h"
#include "nn/rows.h"
#include "nn/text_attention.h"

namespace billow::arch {

enum class EncoderPositions : uint8_t {
  kLearned,  // a row of a table is added
  kRotary,   // halves of query and key heads rotate
};

struct EncoderStyle {
  EncoderPositions positions = EncoderPositions::kLearned;
  bool gated = false;   // SwiGLU; else GELU without a gate
  bool biases = false;  // of products: required, else optional
};

class PostNormEncoder final : public Encoder {
 public:
  // The model of `file`, which must outlive it. Throws Error as load_model() does.
  PostNormEncoder(const gguf::File& file, const LoadOptions& options, const EncoderStyle& style);

  void forward(const nn::Compute& compute, const TextBatch& batch,
               tensor::Matrix hidden) const override;
  void classify(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix scores) const override;
  size_t scratch_bytes(const kernels::KernelTable& kernels,
                       const PassLimits& limits) const override;

 private:
  struct Layer {
    AttentionWeights attention;
    nn::LayerNorm attention_norm;
    FeedForwardWeights feed_forward;
    nn::LayerNorm output_norm;
  };
  // Some neighbouring texts of a pass, which are brought through all layers together.
  struct Part {
    std::span<const int32_t> tokens;
    size_t begin = 0;  // its first row of the pass
    std::vector<uint32_t> ends;
    std::vector<uint32_t> positions;  // [n]
    std::vector<const float*> types;  // [n] rows of segments; empty where there are none
  };
  using Types = std::vector<const quant::TypeRow*>;

  void load(const WeightLoader& load, const EncoderStyle& style);
  void load_norm(const WeightLoader& load, const std::string& name, nn::LayerNorm& norm) const;
  void load_types(const WeightLoader& load);
  void require_biases(const WeightLoader& load, const std::string& prefix,
                      const Layer& layer) const;
  // Whether each thread may read all weights for itself: they stay in the caches.
  bool may_be_alone() const noexcept { return weight_bytes_ <= kCachedBytes; }
  void run_alone(const nn::Compute& compute, std::span<const Part> parts,
                 tensor::Matrix hidden) const;
  Part part_of(const TextBatch& batch, size_t first_text, size_t last_text) const;
  void run(const nn::Compute& compute, const Part& part, tensor::Matrix x) const;
  void embed(const nn::Compute& compute, const Part& part, tensor::Matrix x) const;
  void attend(const nn::Compute& compute, const Layer& layer, std::span<const nn::TextUnit> units,
              const nn::Rope::Rotations& rotations, tensor::Matrix x, tensor::Matrix out) const;
  void feed_forward(const nn::Compute& compute, const FeedForwardWeights& weights, tensor::Matrix x,
                    tensor::Matrix out) const;
  size_t run_bytes(const kernels::KernelTable& kernels, const PassLimits& limits, size_t n) const;
  size_t layer_bytes(const kernels::KernelTable& kernels, const PassLimits& limits, size_t n) const;

  EncoderHparams h_;
  nn::Rope rope_;
  float scale_ = 1.0f;
  tensor::Tensor tokens_;     // [n_vocab][n_embd]
  tensor::Tensor positions_;  // [max_context][n_embd], where they are learned
  std::vector<float> types_;  // [1 or 2][n_embd], where there are segments
  nn::LayerNorm embedding_norm_;
  std::vector<Layer> layers_;
  ClassifierWeights classifier_;
  static constexpr size_t kCachedBytes = size_t{64} << 20;
  size_t weight_bytes_ = 0;  // of all layers' matrices
  Types layer_types_;        // weight formats, each once
  Types classifier_types_;
};

}  // namespace billow::arch

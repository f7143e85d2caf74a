// An encoder that an EncoderStyle describes. Its input is the sum of the token's, the position's
// and the segment's embedding. Layers have attention and a feed-forward part, with norms before or
// after each. A head processes pooled vectors: a classifier or a projection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/decoder/attention.h"
#include "arch/decoder/experts.h"
#include "arch/decoder/feed_forward.h"
#include "arch/decoder/norm.h"
#include "arch/encoder.h"
#include "arch/encoders/classifier.h"
#include "arch/encoders/projection.h"
#include "arch/encoders/style.h"
#include "nn/encoder_attention.h"
#include "nn/rope.h"

namespace billow::arch {

class TextEncoder final : public Encoder {
 public:
  // Loads the model of `file`, which must outlive it. Throws Error as load_model() does.
  TextEncoder(EncoderStyle style, const gguf::File& file, const LoadOptions& options);

  void forward(const nn::Compute& compute, const TextBatch& batch,
               tensor::Matrix hidden) const override;
  void classify(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix scores) const override;
  void project(const nn::Compute& compute, tensor::Matrix x) const override;
  size_t scratch_bytes(const kernels::KernelTable& kernels,
                       const PassLimits& limits) const override;

 private:
  struct Layer {
    EncoderLayerStyle style;
    Norm attn_norm;
    AttentionWeights attention;
    Norm q_norm;  // norms q_norm_len values together: a head, or all heads
    Norm k_norm;
    size_t q_norm_len = 0;
    size_t k_norm_len = 0;
    Norm post_attn_norm;
    Norm second_post_attn_norm;
    Norm ffn_norm;
    FeedForwardWeights dense;
    std::optional<Experts> experts;
    Norm post_ffn_norm;
  };
  // Adjacent texts of a pass that go through all layers together.
  struct Part {
    std::span<const int32_t> tokens;
    size_t begin = 0;  // its first row in the pass
    std::vector<uint32_t> ends;
    std::vector<uint32_t> positions;           // [n]
    std::vector<const float*> types;           // [n] segment embeddings; empty: no segments
    std::vector<const nn::Adapter*> adapters;  // [n]; empty if no row has an adapter
  };
  // The data that all layers of a part share.
  struct Run {
    const nn::Compute& compute;
    std::vector<nn::TextUnit> units;
    std::vector<nn::Rope::Rotations> rotations;  // one for each of EncoderStyle::ropes
  };

  void load(const WeightLoader& load);
  void load_layer(const WeightLoader& load, size_t index, Layer& layer) const;
  Norm load_norm(const WeightLoader& load, const std::string& prefix, std::string_view name) const;
  void load_head_norms(const WeightLoader& load, const std::string& prefix, Layer& layer) const;
  void load_types(const WeightLoader& load);
  void require_biases(const WeightLoader& load, const std::string& prefix,
                      const Layer& layer) const;
  // Whether each thread may read all weights on its own, because they stay in the CPU's caches.
  bool may_be_alone() const noexcept { return weight_bytes_ <= kCachedBytes; }
  void run_alone(const nn::Compute& compute, std::span<const Part> parts,
                 tensor::Matrix hidden) const;
  Part part_of(const TextBatch& batch, size_t first_text, size_t last_text) const;
  void run(const nn::Compute& without_adapters, const Part& part, tensor::Matrix x) const;
  void embed(const nn::Compute& compute, const Part& part, tensor::Matrix x) const;
  void look_up(const nn::Compute& compute, const Part& part, tensor::Matrix x) const;
  // x and out may be the same.
  void attend(const Run& run, const Layer& layer, tensor::Matrix x, tensor::Matrix out) const;
  void feed_forward(const nn::Compute& compute, const Layer& layer, tensor::Matrix x,
                    tensor::Matrix out) const;
  // Adds the result y of a sub-layer to the state x, with the norm. Overwrites y.
  void add_result(const nn::Compute& compute, const Norm& norm, tensor::Matrix x,
                  tensor::Matrix y) const;
  void size_run(const nn::Compute& compute, size_t n) const;
  size_t bytes_alone(const kernels::KernelTable& kernels, size_t n, size_t adapter_rank) const;

  EncoderStyle style_;
  Norms norms_;
  std::vector<nn::Rope> ropes_;
  std::vector<float> slopes_;  // ALiBi's
  tensor::Tensor tokens_;      // [n_vocab][n_embd]
  tensor::Tensor positions_;   // [max_context][n_embd], if positions are learned
  std::vector<float> types_;   // [1 or 2][n_embd], if the model has segments
  Norm embedding_norm_;
  std::vector<Layer> layers_;
  Norm output_norm_;
  ClassifierWeights classifier_;
  Projection projection_;
  static constexpr size_t kCachedBytes = size_t{64} << 20;
  size_t weight_bytes_ = 0;  // sum of all layers' matrices
};

}  // namespace billow::arch

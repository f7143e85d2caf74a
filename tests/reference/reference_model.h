// The forward pass in plain loops. Tests compare the engine's results with it. It shares only the
// reading of files and the decoding of weights with the engine. Weights and activations are float;
// norms, softmax and sums over attention are double. Immutable after construction and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "reference/hyperparameters.h"
#include "reference/matrix.h"

namespace billow::reference {

class ReferenceModel {
 public:
  // Loads a llama, qwen2 or gemma3 model. Throws Error for other architectures. `file` must outlive
  // the model. LongRoPE chooses its factors for a context of `n_context`; 0: the number of tokens
  // of each call.
  explicit ReferenceModel(const gguf::File& file, uint64_t n_context = 0);

  uint64_t n_vocab() const noexcept { return embedding_.n_out(); }

  // Returns the logits after each of `tokens` from `first` on: [n_tokens - first][n_vocab]. The
  // tokens have positions 0, 1, .... Throws Error for a token outside the vocabulary.
  std::vector<float> logits(std::span<const int32_t> tokens, size_t first = 0) const;
  // Returns the hidden states after the final norm: [n_tokens - first][n_embd].
  std::vector<float> hidden(std::span<const int32_t> tokens, size_t first = 0) const;

 private:
  // Activations are [n_tokens][width].
  using Rows = std::vector<float>;

  // A matrix with an optional bias.
  struct Linear {
    Matrix weight;
    std::vector<float> bias;
  };
  struct Layer {
    std::vector<float> attention_norm, feed_forward_norm;
    std::vector<float> query_norm, key_norm;                         // per head, or empty
    std::vector<float> post_attention_norm, post_feed_forward_norm;  // or empty
    Linear query, key, value, output;
    Linear gate, up, down;
  };

  Linear read_linear(const std::string& name, uint64_t n_in, uint64_t n_out) const;
  Layer read_layer(uint64_t layer) const;
  Rows embed(std::span<const int32_t> tokens) const;
  Rows apply(const Linear& linear, const Rows& in) const;
  void add_attention(const Layer& layer, bool local, const Rope& rope, Rows& x) const;
  Rows attend(const Rows& query, const Rows& key, const Rows& value, uint64_t window) const;
  void add_feed_forward(const Layer& layer, Rows& x) const;

  const gguf::File& file_;
  Hyperparameters hp_;
  uint64_t n_context_;
  Matrix embedding_;
  Matrix output_;
  std::vector<float> output_norm_;
  std::vector<Layer> layers_;
};

}  // namespace billow::reference

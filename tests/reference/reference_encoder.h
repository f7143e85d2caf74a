// The forward pass of encoders in plain float loops. Tests compare the engine with it. The class
// refers to its file, which must outlive it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "reference/matrix.h"
#include "reference/rope.h"

namespace billow::reference {

class ReferenceEncoder {
 public:
  // Throws Error if the architecture is not bert or nomic-bert, or if a key or tensor is missing.
  explicit ReferenceEncoder(const gguf::File& file);

  uint64_t n_embd() const noexcept { return n_embd_; }
  uint64_t n_vocab() const noexcept { return embedding_.n_out(); }
  // Returns the hidden states of one text, [tokens][n_embd]. The first n_first tokens are the first
  // segment of a pair; 0: no pair.
  std::vector<float> hidden(std::span<const int32_t> tokens, size_t n_first = 0) const;
  // Returns the classifier's scores for one hidden state.
  std::vector<float> scores(std::span<const float> state) const;

 private:
  using Rows = std::vector<float>;
  struct Norm {
    Rows weight;
    Rows bias;
  };
  struct Linear {
    Matrix weight;
    Rows bias;  // may be empty
  };
  struct Layer {
    std::vector<Linear> qkv;  // three matrices, or one joint matrix
    Linear output;
    Norm attention_norm;
    std::optional<Linear> gate;
    Linear up;
    Linear down;
    Norm output_norm;
  };

  Norm read_norm(const std::string& name) const;
  Linear read_linear(const std::string& name, uint64_t n_in, uint64_t n_out) const;
  Layer read_layer(const std::string& prefix) const;
  Rows apply(const Linear& linear, const Rows& in) const;
  void norm(const Norm& norm, Rows& x) const;
  Rows attend(const Layer& layer, const Rows& x) const;
  Rows feed_forward(const Layer& layer, const Rows& x) const;

  const gguf::File& file_;
  std::string prefix_;
  uint64_t n_embd_;
  uint64_t n_ff_;
  uint64_t n_head_;
  double epsilon_;
  bool nomic_;
  Rope rope_;
  Matrix embedding_;
  std::optional<Matrix> positions_;
  std::optional<Matrix> types_;
  Norm embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace billow::reference

// A loaded encoder: takes texts, and returns the hidden states of their tokens. A token also sees
// later tokens. There is no cache: a pass evaluates whole texts together, without padding. An
// encoder is immutable after loading. Concurrent forward() calls need different Computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arch/model.h"
#include "arch/scratch.h"
#include "gguf/file.h"
#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::arch {

// The texts of one pass, one after another. Each text begins at position 0.
struct TextBatch {
  std::span<const int32_t> tokens;    // [n], in 0 .. n_vocab - 1
  std::span<const uint32_t> ends;     // [n_texts]: the end of each text's tokens; no text is empty
  std::span<const uint32_t> n_first;  // [n_texts]: tokens of a pair's first segment; 0: not a pair
  // [n_texts]: the adapter of each text; null: none. Empty: no text has an adapter.
  std::span<const nn::Adapter* const> adapters = {};
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Its `kv` is empty. Its max_context is the maximum length of a text.
  const ModelInfo& info() const noexcept { return info_; }
  // Scores of the classifier; 0: no classifier
  size_t n_labels() const noexcept { return n_labels_; }
  // Whether the classifier reads the mean; otherwise it reads the first token
  bool classifies_mean() const noexcept { return classifies_mean_; }
  // Whether there is a projection for pooled vectors
  bool projects() const noexcept { return projects_; }

  // Evaluates the batch; hidden is [n][n_embd]. A row depends only on its text, bit for bit. Throws
  // Error only if there is no scratch memory. REQUIRES: no text is longer than max_context.
  virtual void forward(const nn::Compute& compute, const TextBatch& batch,
                       tensor::Matrix hidden) const = 0;
  // Computes the classifier's scores of hidden states: x is [n][n_embd], scores is [n][n_labels].
  // Compute::adapters belong to the rows of x. REQUIRES: the model has a classifier.
  virtual void classify(const nn::Compute& compute, tensor::Matrix x,
                        tensor::Matrix scores) const = 0;

  // Replaces pooled vectors, [n][n_embd], with their projections. Compute::adapters belong to the
  // rows of x. REQUIRES: projects().
  virtual void project(const nn::Compute& compute, tensor::Matrix x) const = 0;

  // Returns the max bytes that the arena holds after any number of passes within `limits`. A pass
  // has n_rows tokens in texts of at most n_positions. The arena also keeps n_hidden_rows hidden
  // states, and the n_logit_rows rows that are classified or projected.
  virtual size_t scratch_bytes(const kernels::KernelTable& kernels,
                               const PassLimits& limits) const = 0;

 protected:
  ModelInfo info_;
  size_t n_labels_ = 0;
  bool classifies_mean_ = false;
  bool projects_ = false;
};

// Returns whether load_encoder() loads this file. Some architectures have both language models and
// encoders. A file of such an architecture is an encoder only if it says that attention is not
// causal, or if it has dense layers after pooling.
bool is_encoder(const gguf::File& file);

// Loads an encoder; otherwise as load_model().
std::unique_ptr<Encoder> load_encoder(const gguf::File& file, const LoadOptions& options);

}  // namespace billow::arch

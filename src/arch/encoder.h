// A loaded encoder: texts in, the hidden states of their tokens out. A token sees what is behind
// it, too. There is no cache: a text is evaluated whole, beside others, without padding. Immutable
// after load; forward() may run on one thread at a time for one Compute.
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

// The texts of one pass, one behind the other. Positions begin at 0 in each.
struct TextBatch {
  std::span<const int32_t> tokens;    // [n], in 0 .. n_vocab - 1
  std::span<const uint32_t> ends;     // [n_texts]: where each text's tokens end; none is empty
  std::span<const uint32_t> n_first;  // [n_texts]: tokens of a pair's first segment; 0: no pair
  // [n_texts]: what each text's rows are added to by; null: nothing. Empty: no text has one.
  std::span<const nn::Adapter* const> adapters = {};
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  // Its `kv` is empty, and max_context the longest text.
  const ModelInfo& info() const noexcept { return info_; }
  size_t n_labels() const noexcept { return n_labels_; }  // scores of the classifier; 0: none
  bool classifies_mean() const noexcept { return classifies_mean_; }  // else the first token
  bool projects() const noexcept { return projects_; }  // vectors, once they are pooled

  // Evaluates the batch; hidden is [n][n_embd]. A row depends on its text alone, to the bit. Throws
  // Error only when scratch memory cannot be had. REQUIRES: no text is longer than max_context.
  virtual void forward(const nn::Compute& compute, const TextBatch& batch,
                       tensor::Matrix hidden) const = 0;
  // The classifier's scores of hidden states: x is [n][n_embd], scores [n][n_labels].
  // Compute::adapters are those of x's rows. REQUIRES: there is one.
  virtual void classify(const nn::Compute& compute, tensor::Matrix x,
                        tensor::Matrix scores) const = 0;

  // Makes vectors, [n][n_embd], of pooled ones, in their place. Compute::adapters are those of x's
  // rows. REQUIRES: it projects.
  virtual void project(const nn::Compute& compute, tensor::Matrix x) const = 0;

  // The most bytes that the arena holds after any number of passes: of limits.n_rows tokens in
  // texts of at most n_positions, whose n_hidden_rows hidden states are kept in the arena, and of
  // which n_logit_rows are classified or projected, from a matrix in the arena.
  virtual size_t scratch_bytes(const kernels::KernelTable& kernels,
                               const PassLimits& limits) const = 0;

 protected:
  ModelInfo info_;
  size_t n_labels_ = 0;
  bool classifies_mean_ = false;
  bool projects_ = false;
};

// Whether load_encoder() loads this file. Some architectures have language models, too: their files
// are encoders only where they say that attention is not causal, or have dense layers behind
// pooling.
bool is_encoder(const gguf::File& file);

// As load_model(), for encoders.
std::unique_ptr<Encoder> load_encoder(const gguf::File& file, const LoadOptions& options);

}  // namespace billow::arch

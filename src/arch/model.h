// A loaded model: weights where they lie in the mapped file, and the forward pass over a batch of
// rows. Immutable after load; forward() may run on one thread at a time for one Compute and Cache.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "kv/block_table.h"
#include "kv/cache.h"
#include "nn/adapter.h"
#include "nn/compute.h"
#include "nn/packed_weights.h"
#include "tensor/tensor.h"

namespace billow::arch {

// The rows of one step: prefill chunks and decode rows of any sequences side by side. Rows of one
// sequence stand together, in order of their positions.
struct Batch {
  std::span<const int32_t> tokens;                // [n], in 0 .. n_vocab - 1
  std::span<const uint32_t> positions;            // [n]
  std::span<const uint32_t> sequences;            // [n], indices into `tables`
  std::span<const kv::BlockTable* const> tables;  // each with room for the positions of its rows
  std::span<const uint32_t> logit_rows;           // rows whose logits are wanted
  std::span<const uint32_t> hidden_rows = {};     // rows whose last hidden states are wanted
  // [table]: whether its text is longer than ModelInfo::short_text. Empty: none is.
  std::span<const uint8_t> is_long = {};
  // [table]: what is added to the model for it; null: nothing. Empty: nothing is for any.
  std::span<const nn::Adapter* const> adapters = {};
};

// What a pass writes, each in the order of the rows that want it.
struct Outputs {
  tensor::Matrix logits;       // [logit_rows.size()][n_vocab]
  tensor::Matrix hidden = {};  // [hidden_rows.size()][n_embd], behind the final norm
};

struct ModelInfo {
  std::string architecture;
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_layers = 0;
  size_t max_context = 0;  // positions that the model was made for
  // Tokens up to which a text is short: a longer one is rotated otherwise from its beginning on
  // (LongRoPE). 0: all texts are rotated alike.
  size_t short_text = 0;
  // Whether texts of up to n tokens are all rotated alike.
  bool rotates_alike(size_t n) const noexcept { return short_text == 0 || n <= short_text; }
  std::vector<kv::LayerNeed> kv;  // one for each layer
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const noexcept { return info_; }

  // Evaluates the batch, writes its keys and values into the cache, and what it wants into `out`.
  // Throws Error only when scratch memory cannot be had. In a sizing pass (nn::Sizing) the cache is
  // null, and only the number of rows of each kind counts.
  virtual void forward(const nn::Compute& compute, kv::Cache* cache, const Batch& batch,
                       const Outputs& out) const = 0;

 protected:
  ModelInfo info_;
};

struct LoadOptions {
  // Gets the weights that have a packed form, must outlive the model, and must have made them
  // before the first pass; null: weights are used as they lie in the file.
  nn::PackedWeights* packed = nullptr;
  // Gets each matrix that passes multiply with: what adapters can add to. Null: nobody asks.
  std::vector<tensor::Tensor>* matrices = nullptr;
};

// Bytes that the packed forms of all matrices of `file` take at most.
size_t max_packed_bytes(const gguf::File& file);

// Loads the model of `file`, which must outlive it. An architecture, weight format, or tensor that
// is unknown, missing or of another shape than it should be is an Error that names it.
std::unique_ptr<Model> load_model(const gguf::File& file, const LoadOptions& options);

}  // namespace billow::arch

// A loaded model: weights, packed or in the mapped file, and the forward pass over a batch of rows.
// A model is immutable after loading. Concurrent forward() calls need different Computes and
// Caches.
#pragma once

#include <algorithm>
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
#include "nn/rope.h"
#include "tensor/tensor.h"

namespace billow::arch {

// The rows of one step: prefill chunks and decode rows of any sequences. The rows of one sequence
// are adjacent, in the order of their positions.
struct Batch {
  std::span<const int32_t> tokens;                // [n], in 0 .. n_vocab - 1
  std::span<const uint32_t> positions;            // [n]
  std::span<const uint32_t> sequences;            // [n], indices into `tables`
  std::span<const kv::BlockTable* const> tables;  // each with room for the positions of its rows
  std::span<const uint32_t> logit_rows;           // rows that need logits
  std::span<const uint32_t> hidden_rows = {};     // rows that need their last hidden state
  // [table]: whether its text is longer than ModelInfo::short_text. Empty: none is longer.
  std::span<const uint8_t> is_long = {};
  // [table]: the adapter of its sequence; null: none. Empty: no sequence has an adapter.
  std::span<const nn::Adapter* const> adapters = {};
  // [n]: only for a predicting head: the last hidden state of the model for the token before the
  // row's token, n_embd values. Empty in a sizing pass.
  std::span<const float* const> states = {};
  // [n]: whether the row's token is read or written. Empty: all are written.
  nn::RowKinds kinds = {};
  // The following are empty if no row belongs to a picture.
  // [n]: the embedding of a picture's token, n_embd values, then ModelInfo::n_deep times n_embd
  // values, which are added to the states after the first layers. Null: the row has a token.
  // A row with an embedding has token 0.
  std::span<const float* const> embeddings = {};
  // [n]: the positions for rotations; only for a model with ModelInfo::has_grid.
  std::span<const nn::GridPosition> grid = {};
  // [n]: the last position that a row sees in layers where the tokens of a picture see each other;
  // only for a model with ModelInfo::sees_whole_pictures. See nn::KvRows::last.
  std::span<const uint32_t> last_seen = {};
};

// The results of a pass. Row i of a matrix belongs to element i of the batch's list of rows.
struct Outputs {
  tensor::Matrix logits;       // [logit_rows.size()][n_vocab]
  tensor::Matrix hidden = {};  // [hidden_rows.size()][n_embd], after the final norm
};

struct ModelInfo {
  std::string architecture;
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_layers = 0;
  size_t max_context = 0;  // positions that the model was trained for
  // Max tokens of a short text. A longer text has other rotations, also at its beginning
  // (LongRoPE). 0: all texts have the same rotations.
  size_t short_text = 0;
  // Returns whether all texts of up to n tokens have the same rotations.
  bool rotates_alike(size_t n) const noexcept { return short_text == 0 || n <= short_text; }
  // Returns whether a context of up to n tokens can shift. It cannot if dropped tokens are in the
  // states of layers, if rotations depend on the length of the text, or if a layer's window sees
  // the whole context: layers with windows lose the anchor when a context shifts.
  bool can_shift(size_t n) const noexcept {
    const auto prevents = [n](const kv::LayerNeed& need) {
      return need.state_floats != 0 || need.window >= std::max<size_t>(n, 1);
    };
    return rotates_alike(n) && std::ranges::none_of(kv, prevents);
  }
  size_t n_deep = 0;      // layers after which a picture adds embeddings (Qwen3-VL)
  bool has_grid = false;  // tokens of pictures rotate by rows and columns (M-RoPE)
  // Tokens of a picture also see later tokens of the same picture. A pass must have all of them.
  bool sees_whole_pictures = false;
  std::vector<kv::LayerNeed> kv;  // one for each layer
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const noexcept { return info_; }

  // Evaluates the batch. Writes keys and values into the cache, and the results into `out`. Throws
  // Error only if there is no scratch memory. In a sizing pass (nn::Sizing) the cache is null, and
  // only the numbers of rows matter.
  virtual void forward(const nn::Compute& compute, kv::Cache* cache, const Batch& batch,
                       const Outputs& out) const = 0;

  // Returns the model's predicting head, which the model owns; null: none was loaded. A head
  // guesses the token after the next one (multi-token prediction; DeepSeek-V3, arXiv 2412.19437,
  // section 2.2): from a token, and from the model's hidden state for the token before it
  // (Batch::states). Its hidden states can take the place of the model's, to guess further tokens.
  // It has the model's vocabulary, and keys and values of its own.
  virtual const Model* head() const noexcept { return nullptr; }

 protected:
  ModelInfo info_;
};

struct LoadOptions {
  // Receives the weights that have a packed form. It must outlive the model, and must have packed
  // all weights before the first pass. Null: passes use the weights from the file.
  nn::PackedWeights* packed = nullptr;
  // Receives each matrix that passes multiply with: adapters can change these. May be null.
  std::vector<tensor::Tensor>* matrices = nullptr;
  // Loads the predicting head, if the file has one and its architecture is known to have one.
  bool with_head = false;
};

// Returns the max bytes of the packed forms of all matrices of `file`.
size_t max_packed_bytes(const gguf::File& file);

// Loads the model of `file`, which must outlive it. Throws Error naming an architecture, weight
// format or tensor that is unknown, missing, or of the wrong shape.
std::unique_ptr<Model> load_model(const gguf::File& file, const LoadOptions& options);

}  // namespace billow::arch

// Interface of models that calculate vectors of texts, one pass of packed texts at a time: an
// encoder, or a decoder whose hidden states are pooled. The batcher decides which texts share a
// pass; a model has no queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/adapters.h"
#include "engine/engine.h"
#include "engine/pooling.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

struct EmbedText {
  std::vector<int32_t> tokens;  // with special tokens
  // Tokens of the first segment of a pair; the second segment follows. 0: only one segment.
  size_t n_first = 0;
  std::optional<Pooling> pooling{};  // empty: the model's pooling
  AdapterFiles adapters{};           // empty: EngineOptions::adapters
};

// Result for one text.
struct EmbedVector {
  // Not normalised: [n_embd]; without pooling [tokens][n_embd]; for kRank the scores.
  std::vector<float> values;
  std::string error;  // why there are no values, in one line; else empty
};

struct EmbedModelInfo {
  std::string architecture;
  size_t n_embd = 0;
  size_t n_vocab = 0;
  size_t max_tokens = 0;  // max tokens of a text
  Pooling pooling = Pooling::kMean;
  std::string kernels{};  // the kernel table's name
};

// Returns in one line why tokens cannot be evaluated: none, too many, or an unknown id. Else
// returns an empty string.
std::string token_refusal(const EmbedModelInfo& info, const std::vector<int32_t>& tokens);

// Returns the vector, or an error if it has values that are not finite.
EmbedVector checked_vector(std::vector<float> values);

class EmbedModel {
 public:
  virtual ~EmbedModel() = default;
  virtual const EmbedModelInfo& info() const noexcept = 0;
  virtual const tokenizer::Tokenizer& tokenizer() const noexcept = 0;  // thread-safe

  // Returns an empty string if the text can be evaluated. Otherwise returns the reason in one line:
  // no tokens, more than max_tokens, an unknown id, pooling that the model does not support, or an
  // adapter for another model. Thread-safe.
  virtual std::string refusal(const EmbedText& text) const = 0;

  // Evaluates texts that were not refused in one pass, without padding between them. out[i] is the
  // result for texts[i], and does not depend on the other texts. If a vector has values that are
  // not finite, its text gets an error. Throws Error (kOutOfMemory) or std::bad_alloc if memory for
  // the pass is refused; the caller may then try a smaller pass. One thread at a time.
  virtual void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) = 0;

  // Like an engine's. Models for parallel passes share one budget, and the sum of their memory() is
  // their total memory. Only for the thread of embed(), between two passes.
  virtual MemoryUse memory() const { return {}; }
  virtual uint64_t set_memory_budget(uint64_t bytes) { return bytes; }
};

}  // namespace billow::engine

// What makes vectors of texts, one pass of packed texts at a time: an encoder, or a decoder whose
// hidden states are pooled. The batcher decides which texts share a pass; a model knows no queue.
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
  std::vector<int32_t> tokens;  // special ones included
  // Tokens of the first segment of a pair; those behind it are the second. 0: there is one segment.
  size_t n_first = 0;
  std::optional<Pooling> pooling{};  // in place of the model's
  AdapterFiles adapters{};  // what the model is added to by; empty: EngineOptions::adapters
};

// Of one text.
struct EmbedVector {
  // Not normalised: [n_embd], [tokens][n_embd] without pooling, the scores of kRank.
  std::vector<float> values;
  std::string error;  // why there are none: one line; else empty
};

struct EmbedModelInfo {
  std::string architecture;
  size_t n_embd = 0;
  size_t n_vocab = 0;
  size_t max_tokens = 0;  // of a text: what the model was made for
  Pooling pooling = Pooling::kMean;
  std::string kernels{};  // the kernel table's name
};

// Why tokens cannot be evaluated, in one line: none, too many, an id that is none. Else empty.
std::string token_refusal(const EmbedModelInfo& info, const std::vector<int32_t>& tokens);

// The vector, or an error in its place where it has values that are no numbers.
EmbedVector checked_vector(std::vector<float> values);

class EmbedModel {
 public:
  virtual ~EmbedModel() = default;
  virtual const EmbedModelInfo& info() const noexcept = 0;
  virtual const tokenizer::Tokenizer& tokenizer() const noexcept = 0;  // any thread

  // Nothing when the text can be evaluated; else why not, in one line: no tokens, more than
  // max_tokens, an id that is no token, pooling that the model has no means for, an adapter that
  // was made for another model. Any thread.
  virtual std::string refusal(const EmbedText& text) const = 0;

  // Evaluates texts that were not refused in one pass, without padding between them: out[i] is of
  // texts[i], and the same whatever its neighbours are. A vector with values that are no numbers is
  // that text's error. Throws Error (kOutOfMemory) or std::bad_alloc where memory for the pass is
  // refused; a smaller one may be tried then. One thread at a time.
  virtual void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) = 0;

  // As an engine's; models for passes at once share one budget, and memory() of all of them adds up
  // to what they take together. The thread of embed(), between two passes.
  virtual MemoryUse memory() const { return {}; }
  virtual uint64_t set_memory_budget(uint64_t bytes) { return bytes; }
};

}  // namespace billow::engine

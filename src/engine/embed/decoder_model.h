// Calculates vectors of texts with a decoder whose hidden states are pooled, or scores of texts
// that contain a query and a document. info() and refusal() are thread-safe; one thread at a time
// may call the rest.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/embed/model.h"
#include "engine/embed/relevance.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

class DecoderModel final : public EmbedModel {
 public:
  // Throws the same Error as Engine, and as pooling_of_decoder() if the model gives no vectors.
  explicit DecoderModel(gguf::File file, const EngineOptions& options = {});

  const EmbedModelInfo& info() const noexcept override { return info_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return engine_.tokenizer(); }
  std::string refusal(const EmbedText& text) const override;
  // Throws Error (kInvalidInput) for a text that refusal() refuses.
  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override;
  MemoryUse memory() const override { return engine_.memory(); }
  uint64_t set_memory_budget(uint64_t bytes) override { return engine_.set_memory_budget(bytes); }

  Engine& engine() noexcept { return engine_; }

 private:
  Engine engine_;
  EmbedModelInfo info_;
  std::optional<Relevance> relevance_;  // only for models that rank
};

}  // namespace billow::engine

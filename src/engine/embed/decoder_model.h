// Vectors of texts from a decoder whose hidden states are pooled, or scores of texts that hold a
// query and a document. One thread at a time, but for info() and refusal().
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
  // Throws Error as Engine does, and as pooling_of_decoder() for a model that gives no vectors.
  explicit DecoderModel(gguf::File file, const EngineOptions& options = {});

  const EmbedModelInfo& info() const noexcept override { return info_; }
  const tokenizer::Tokenizer& tokenizer() const noexcept override { return engine_.tokenizer(); }
  std::string refusal(const EmbedText& text) const override;
  // A text that refusal() has something against is an Error (kInvalidInput).
  void embed(std::span<const EmbedText* const> texts, std::span<EmbedVector> out) override;
  MemoryUse memory() const override { return engine_.memory(); }
  uint64_t set_memory_budget(uint64_t bytes) override { return engine_.set_memory_budget(bytes); }

  Engine& engine() noexcept { return engine_; }

 private:
  Engine engine_;
  EmbedModelInfo info_;
  std::optional<Relevance> relevance_;  // where it ranks
};

}  // namespace billow::engine

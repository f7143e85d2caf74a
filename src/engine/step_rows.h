// The flat rows of one step, collected from sequences, for arch::Batch. Must live as long as its
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/model.h"
#include "engine/pictures.h"
#include "engine/sequence_context.h"

namespace billow::engine {

class StepRows {
 public:
  explicit StepRows(const arch::ModelInfo& model) : model_(model) {}

  // A text whose rows are added.
  struct Text {
    std::span<const int32_t> tokens;
    size_t n_read = SIZE_MAX;                  // the first tokens, which are not of an answer
    const nn::Adapter* adapter = nullptr;      // null: none
    std::span<const int32_t> draft = {};       // tokens after `tokens`
    const PlacedPictures* pictures = nullptr;  // null: none
  };

  // Adds the last n tokens that `context` has taken blocks for.
  void add(const SequenceContext& context, size_t n, const Text& text);

  std::vector<uint32_t> logit_rows;
  std::vector<uint32_t> hidden_rows;
  size_t n() const noexcept { return tokens_.size(); }
  arch::Batch view() const {
    return {.tokens = tokens_,
            .positions = positions_,
            .sequences = sequences_,
            .tables = tables_,
            .logit_rows = logit_rows,
            .hidden_rows = hidden_rows,
            .is_long = is_long_,
            .adapters = adapters_,
            .kinds = kinds_,
            .embeddings = embeddings_,
            .grid = grid_,
            .last_seen = last_seen_};
  }

 private:
  void begin_pictures();

  const arch::ModelInfo& model_;
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> positions_;
  std::vector<uint32_t> sequences_;
  std::vector<const kv::BlockTable*> tables_;
  std::vector<uint8_t> is_long_;
  std::vector<const nn::Adapter*> adapters_;
  std::vector<kernels::RowKind> kinds_;
  // Empty until a text with pictures is added.
  bool has_pictures_ = false;
  std::vector<const float*> embeddings_;
  std::vector<nn::GridPosition> grid_;
  std::vector<uint32_t> last_seen_;
};

}  // namespace billow::engine

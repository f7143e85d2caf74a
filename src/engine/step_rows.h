// The flat rows of one step, collected from sequences, for arch::Batch. Must live as long as its
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/model.h"
#include "engine/sequence_context.h"

namespace billow::engine {

struct StepRows {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> sequences;
  std::vector<const kv::BlockTable*> tables;
  std::vector<uint32_t> logit_rows;
  std::vector<uint32_t> hidden_rows;
  std::vector<uint8_t> is_long;
  std::vector<const nn::Adapter*> adapters;

  // Adds the last n tokens that `context` has taken blocks for. `adapter` may be null. `draft`:
  // tokens that follow all_tokens.
  void add(const SequenceContext& context, size_t n, std::span<const int32_t> all_tokens,
           const nn::Adapter* adapter = nullptr, std::span<const int32_t> draft = {}) {
    for (size_t position = context.n_held() - n; position < context.n_held(); ++position) {
      const size_t index = context.index_of(position);
      tokens.push_back(index < all_tokens.size() ? all_tokens[index]
                                                 : draft[index - all_tokens.size()]);
      positions.push_back(static_cast<uint32_t>(context.slot_of(position)));
      sequences.push_back(static_cast<uint32_t>(tables.size()));
    }
    tables.push_back(&context.blocks());
    is_long.push_back(context.is_long() ? 1 : 0);
    adapters.push_back(adapter);
  }
  arch::Batch view() const {
    return {tokens, positions, sequences, tables, logit_rows, hidden_rows, is_long, adapters};
  }
};

}  // namespace billow::engine

// Loads a model's weights from its file into the packed form, for models of all kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "context/ledger.h"
#include "cpu/thread_team.h"
#include "engine/engine.h"
#include "engine/packed_cache.h"
#include "gguf/file.h"
#include "nn/packed_weights.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// Returns the budget from the options, or 80 % of the memory that this process may use.
uint64_t memory_budget(const EngineOptions& options);

// Counts n_bytes of weights of `file` against the budget. Throws Error (kOutOfMemory) if the budget
// is too small.
void grant_bytes(context::Ledger& ledger, const gguf::File& file, uint64_t n_bytes);

// Counts the weights against the budget: packed weights, and all other weights in the mapped file.
// Throws Error (kOutOfMemory) if the budget is too small.
void grant_weights(context::Ledger& ledger, const gguf::File& file,
                   const nn::PackedWeights& packed);

// Packs the weights that `packed` lists. If `cache` has their packed form, maps that; otherwise
// stores the result in `cache`. One thread runs `first` before it packs. `kernels`: the name of the
// kernel table. Throws Error with the file's name, and what `first` throws.
void pack_weights(cpu::ThreadTeam& team, nn::PackedWeights& packed, PackedCache& cache,
                  const gguf::File& file, std::string_view kernels,
                  const std::function<void(size_t n_loaded, size_t n_to_load)>& on_load = {},
                  const std::function<void()>& first = {});

// Calls pack_weights(). One thread first loads the vocabulary. Returns the vocabulary. Throws Error
// also if it has more than n_vocab tokens, the number of rows of token_embd.weight.
tokenizer::Tokenizer load_weights(cpu::ThreadTeam& team, nn::PackedWeights& packed,
                                  PackedCache& cache, const gguf::File& file,
                                  std::string_view kernels, size_t n_vocab,
                                  const EngineOptions& options);

}  // namespace billow::engine

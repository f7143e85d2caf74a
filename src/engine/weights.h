// A model's weights on their way from its file into the kernels' form, whatever the model does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "context/ledger.h"
#include "cpu/thread_team.h"
#include "engine/engine.h"
#include "engine/packed_cache.h"
#include "gguf/file.h"
#include "nn/packed_weights.h"
#include "tokenizer/tokenizer.h"

namespace billow::engine {

// Bytes: what the options say, else 80 % of what this process may use.
uint64_t memory_budget(const EngineOptions& options);

// Counts the weights against the budget: what is packed, and the rest where it lies in the file.
// Throws Error (kOutOfMemory) where the budget is too small.
void grant_weights(context::Ledger& ledger, const gguf::File& file,
                   const nn::PackedWeights& packed);

// Packs what `packed` lists, or takes it from `cache`, which gets it otherwise. One thread reads
// the vocabulary while the others begin, and returns it. `kernels`: the name of their table. Throws
// Error naming the file: also for a vocabulary of more than n_vocab tokens, which token_embd.weight
// has.
tokenizer::Tokenizer load_weights(cpu::ThreadTeam& team, nn::PackedWeights& packed,
                                  PackedCache& cache, const gguf::File& file,
                                  std::string_view kernels, size_t n_vocab,
                                  const EngineOptions& options);

}  // namespace billow::engine

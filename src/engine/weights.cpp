#include "engine/weights.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "cpu/memory.h"
#include "engine/memory_need.h"

namespace billow::engine {

uint64_t memory_budget(const EngineOptions& options) {
  return options.memory_budget != 0 ? options.memory_budget : cpu::usable_memory() / 100 * 80;
}

void grant_weights(context::Ledger& ledger, const gguf::File& file,
                   const nn::PackedWeights& packed) {
  grant_bytes(ledger, file, weight_bytes(file, packed));
}

void grant_bytes(context::Ledger& ledger, const gguf::File& file, uint64_t n_bytes) {
  if (ledger.grant(context::MemoryClass::kWeights, n_bytes)) return;
  throw Error(ErrorCode::kOutOfMemory,
              file.path() + ": the weights take " + format_byte_size(n_bytes) +
                  ", but the memory budget is " + format_byte_size(ledger.account().budget) +
                  "; allow more memory or use a smaller model");
}

void pack_weights(cpu::ThreadTeam& team, nn::PackedWeights& packed, PackedCache& cache,
                  const gguf::File& file, std::string_view kernels,
                  const std::function<void(size_t n_loaded, size_t n_to_load)>& on_load,
                  const std::function<void()>& first) {
  const std::unique_ptr<PackedCache::Found> found = cache.find(file, kernels, packed);
  if (!found) packed.place(team.nodes());
  if (!found) packed.hold();  // before team.run(), because hold() can throw
  std::exception_ptr error;
  nn::PackedWeights::Progress progress;
  if (on_load) progress = [&](size_t n_made) { on_load(n_made, packed.n_bytes()); };
  team.run([&](int member) {
    try {
      if (member == 0 && first) first();
    } catch (...) {
      error = std::current_exception();
    }
    if (found) return found->check(progress);
    packed.pack(progress);
  });
  if (error) std::rethrow_exception(error);
  const bool is_packed = !found || cache.accept(*found, packed);
  if (!is_packed) {
    packed.hold();
    team.run([&](int) { packed.pack(progress); });
  }
  if (!found || !is_packed) cache.save(file, kernels, packed);
}

tokenizer::Tokenizer load_weights(cpu::ThreadTeam& team, nn::PackedWeights& packed,
                                  PackedCache& cache, const gguf::File& file,
                                  std::string_view kernels, size_t n_vocab,
                                  const EngineOptions& options) {
  std::optional<tokenizer::Tokenizer> tokenizer;
  pack_weights(team, packed, cache, file, kernels, options.on_load,
               [&] { tokenizer.emplace(tokenizer::Tokenizer::load(file)); });
  const auto n_tokens = static_cast<size_t>(tokenizer->n_tokens());
  if (n_tokens > n_vocab) {
    throw Error(ErrorCode::kInvalidInput,
                file.path() + ": the vocabulary has " + std::to_string(n_tokens) +
                    " tokens, but tensor token_embd.weight only " + std::to_string(n_vocab));
  }
  return std::move(*tokenizer);
}

}  // namespace billow::engine

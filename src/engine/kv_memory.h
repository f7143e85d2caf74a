// Distributes KV memory. A sequence is granted a rung before it allocates blocks. The KV of
// finished sequences is cached for prompts with the same prefix, and evicted when memory is needed.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "context/ledger.h"
#include "engine/sequence_context.h"
#include "kv/cache.h"
#include "kv/prefix_index.h"

namespace billow::engine {

struct KvMemoryOptions {
  // Max sequences, of n_positions each; texts get as many positions as one sequence.
  size_t n_sequences = 1;
  size_t n_positions = 0;
  size_t n_batch = 1;  // max rows of a step
  kv::KvType type = kv::KvType::kInt16;
  size_t n_draft_states = 0;  // per sequence, if the model has states
  // Blocks that a sequence uses outside this cache on its rung, for a draft model.
  std::vector<kv::Group> other_groups = {};
  uint64_t max_cached = 0;  // max bytes of cached KV of finished sequences
  // Where the KV of finished sequences is stored on disk, without name and contents. If the folder
  // is empty, nothing is stored.
  kv::PrefixFileOptions sessions = {};
  // Frees cached memory of another kind. Returns false if there is none.
  std::function<bool()> drop_other = {};
  // Returns the bytes that drop_other() can free, except for adapters.
  std::function<uint64_t()> other_cached_bytes = {};
};

class KvMemory {
 public:
  // `ledger` must outlive this object.
  KvMemory(context::Ledger& ledger, const std::vector<kv::LayerNeed>& needs,
           const KvMemoryOptions& options);

  kv::Cache& cache() noexcept { return cache_; }
  const kv::Cache& cache() const noexcept { return cache_; }

  bool has_states() const noexcept { return cache_.layout().states.has_value(); }

  // Returns the max bytes of a sequence on a rung.
  uint64_t bytes_for(const context::ContextPlan& context_plan, size_t rung) const;

  // Grants bytes of any memory class from the ledger. Evicts cached memory if necessary.
  [[nodiscard]] bool grant(context::MemoryClass memory_class, uint64_t n_bytes);
  // Evicts cached memory while more is granted than the budget allows.
  void fit_budget();
  // Grants a sequence the blocks up to a rung. Returns false and changes nothing if the budget does
  // not allow it.
  [[nodiscard]] bool grant_rung(SequenceContext& context, size_t rung);

  // Gives a sequence the cached blocks of its prompt, at most for all tokens but the last. Returns
  // the number of tokens. Called before any token of the sequence is evaluated.
  size_t match_prefix(SequenceContext& context, std::span<const int32_t> tokens);
  // Undoes match_prefix().
  void release_shared(SequenceContext& context);
  // Inserts the evaluated tokens of a sequence into the prefix cache. Does nothing if tokens were
  // dropped, because positions then differ from those of the tokens. `ends`: the sequence gets no
  // more tokens.
  void insert(const SequenceContext& context, std::span<const int32_t> tokens, bool ends = false);

  // See kv::PrefixIndex::latest().
  std::vector<kv::KnownText> latest_prefixes(size_t n_max, uint64_t adapter) const {
    return prefixes_.latest(n_max, adapter);
  }

  // Returns whether there is KV that is still to be written to disk.
  bool has_to_save() const noexcept { return prefixes_.has_to_write(); }
  // Writes the KV of 64 tokens. REQUIRES: has_to_save().
  void save_one() { prefixes_.write_one(); }
  // See kv::PrefixIndex::on_disk() and forget().
  kv::TextKv text_on_disk(std::span<const int32_t> tokens, const kv::TextMarks& marks) {
    return prefixes_.on_disk(tokens, marks);
  }
  kv::TextKv forget_text(std::span<const int32_t> tokens, const kv::TextMarks& marks);
  // Removes all cached KV, in memory and on disk.
  void forget_cached();
  // Returns the bytes of cached KV that were dropped so far, because memory was needed or the cache
  // was full.
  uint64_t evicted_bytes() const noexcept { return evicted_bytes_; }

  // Frees the blocks that no window of the sequence sees any more.
  void evict_out_of_window(SequenceContext& context);
  // Allocates blocks for the next n tokens and n_draft drafted ones: see SequenceContext::take().
  // REQUIRES: fewer than n_sequences other sequences.
  void take(SequenceContext& context, size_t n, size_t n_draft, bool ends);
  void compact(SequenceContext& context, const context::Compaction& compaction);
  // Frees all blocks of a sequence and returns their memory to the system.
  void release(SequenceContext& context);
  // The same, but the system gets the memory at the next trim(). For memory that is soon reused.
  void release_soon(SequenceContext& context);
  void trim();
  // of one sequence, in whole blocks
  size_t max_positions() const noexcept { return max_positions_; }

 private:
  // On several NUMA nodes, puts the memory on all of them.
  void spread();
  bool would_fit(uint64_t n_bytes) const;
  bool drop_anything();
  bool drop_cached();
  bool evict_oldest();
  void settle_cached();

  context::Ledger& ledger_;
  size_t max_positions_;
  kv::Cache cache_;
  kv::PrefixIndex prefixes_;
  size_t n_batch_;
  uint64_t max_cached_;
  uint64_t evicted_bytes_ = 0;
  std::vector<kv::Group> other_groups_;
  std::function<bool()> drop_other_;
  std::function<uint64_t()> other_cached_bytes_;
  bool has_several_nodes_;
};

}  // namespace billow::engine

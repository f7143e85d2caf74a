// Whose KV memory is whose: sequences are granted a rung before they take its blocks, what finished
// ones leave is kept for prompts that begin alike, and makes way for whoever wants the memory. One
// thread at a time.
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
  size_t n_sequences = 1;  // at most, with n_positions each; and texts with as many together
  size_t n_positions = 0;
  size_t n_batch = 1;  // rows of a step
  kv::KvType type = kv::KvType::kInt16;
  size_t n_draft_states = 0;  // of a sequence, where there are states
  // Blocks that a sequence may take elsewhere on its rung, for a draft model.
  std::vector<kv::Group> other_groups = {};
  uint64_t max_cached = 0;  // bytes of finished sequences that are kept
  // Where the KV of finished sequences stays on disk, without name and contents; its folder is
  // empty: it does not.
  kv::PrefixFileOptions sessions = {};
  // Gives back memory of another kind that nobody needs; false where there is none.
  std::function<bool()> drop_other = {};
};

class KvMemory {
 public:
  // `ledger` must outlive it.
  KvMemory(context::Ledger& ledger, const std::vector<kv::LayerNeed>& needs,
           const KvMemoryOptions& options);

  kv::Cache& cache() noexcept { return cache_; }
  const kv::Cache& cache() const noexcept { return cache_; }

  bool has_states() const noexcept { return cache_.layout().states.has_value(); }

  // The most that a sequence takes on a rung.
  uint64_t bytes_for(const context::ContextPlan& context_plan, size_t rung) const;

  // From the ledger, for any class of memory; what is cached makes way.
  [[nodiscard]] bool grant(context::MemoryClass memory_class, uint64_t n_bytes);
  // Gives back what is cached as long as more is granted than the budget has.
  void fit_budget();
  // Lets a sequence have the blocks up to a rung. False, and nothing has changed, when the budget
  // does not allow it.
  [[nodiscard]] bool grant_rung(SequenceContext& context, size_t rung);

  // Before anything of a sequence is evaluated: lets it hold what is known of all but the last of
  // its tokens. Returns how many that are.
  size_t share(SequenceContext& context, std::span<const int32_t> tokens);
  void release_shared(SequenceContext& context);
  // Makes what a sequence holds known. Does nothing once some of its tokens were dropped: positions
  // are not those of the tokens any more.
  // `ends`: the sequence goes no further.
  void insert(const SequenceContext& context, std::span<const int32_t> tokens, bool ends = false);

  // kv::PrefixIndex::latest
  std::vector<std::vector<int32_t>> latest_prefixes(size_t n_max, uint64_t adapter) const {
    return prefixes_.latest(n_max, adapter);
  }

  // Whether there is KV that is not on disk yet and is to be.
  bool has_to_save() const noexcept { return prefixes_.has_to_write(); }
  // Writes the KV of 64 tokens. REQUIRES: has_to_save().
  void save_one() { prefixes_.write_one(); }
  // Forgets all cached KV, in memory and on disk.
  void forget_cached();

  // Gives back what no window of a sequence sees any more.
  void evict_out_of_window(SequenceContext& context);
  // Blocks for the next n tokens, and n_draft drafted ones: see SequenceContext::take.
  // REQUIRES: fewer sequences than n_sequences beside this one.
  void take(SequenceContext& context, size_t n, size_t n_draft, bool ends);
  void compact(SequenceContext& context, const context::Compaction& compaction);
  // Gives back all that a sequence has, to the system, too.
  void release(SequenceContext& context);
  // The same, but the system gets it with the next trim(): for what is soon followed by others.
  void release_soon(SequenceContext& context);
  void trim() { cache_.trim(); }
  // In whole blocks, of one sequence.
  size_t max_positions() const noexcept { return max_positions_; }

 private:
  bool drop_anything();
  bool drop_cached();
  void settle_cached();

  context::Ledger& ledger_;
  size_t max_positions_;
  kv::Cache cache_;
  kv::PrefixIndex prefixes_;
  size_t n_batch_;
  uint64_t max_cached_;
  std::vector<kv::Group> other_groups_;
  std::function<bool()> drop_other_;
};

}  // namespace billow::engine

#include "engine/kv_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/saturating.h"
#include "cpu/numa.h"

namespace billow::engine {
namespace {

using context::MemoryClass;

// Returns the positions of one sequence in whole blocks, plus one block for each end of a gap.
size_t whole_blocks(size_t n) {
  constexpr size_t kBlock = kv::kBlockPositions;
  return ((n + kBlock - 1) / kBlock + 2) * kBlock;
}

bool shifts(const context::ContextPlan& context_plan) {
  return context_plan.policy == context::OverflowPolicy::kShift;
}

}  // namespace

KvMemory::KvMemory(context::Ledger& ledger, const std::vector<kv::LayerNeed>& needs,
                   const KvMemoryOptions& options)
    : ledger_(ledger),
      max_positions_(whole_blocks(options.n_positions)),
      cache_(needs, max_positions_ * (options.n_sequences + 1), options.type,
             options.n_draft_states),
      prefixes_(cache_),
      n_batch_(options.n_batch),
      max_cached_(options.max_cached),
      other_groups_(options.other_groups),
      drop_other_(options.drop_other),
      other_cached_bytes_(options.other_cached_bytes),
      has_several_nodes_(cpu::has_several_nodes()) {
  spread();
  if (options.sessions.folder.empty() || options.sessions.max_bytes == 0 || max_cached_ == 0)
    return;
  try {
    std::string why;
    auto file = kv::PrefixFile::open(options.sessions, cache_.layout(), &why);
    if (file == nullptr) log::warn("conversations are not kept on disk: " + why);
    if (file != nullptr) prefixes_.attach(std::move(file));
  } catch (const Error& error) {
    log::warn(std::string("conversations are not kept on disk: ") + error.what());
  }
}

void KvMemory::spread() {
  if (!has_several_nodes_) return;
  for (uint32_t group = 0; group < cache_.layout().groups.size(); ++group) {
    const kv::BlockPool& pool = cache_.pool(group);
    cpu::spread_over_nodes(pool.base(), pool.max_blocks() * pool.block_bytes());
  }
}

void KvMemory::trim() {
  cache_.trim();
  spread();  // memory that was given back has lost its nodes
}

uint64_t KvMemory::bytes_for(const context::ContextPlan& context_plan, size_t rung) const {
  const bool with_gap = shifts(context_plan);
  return saturating_add(
      cache_.layout().bytes_for(rung, n_batch_, with_gap),
      context::kv_bytes(other_groups_, kv::kBlockPositions, rung, n_batch_, with_gap));
}

// If memory was evicted, returns it to the system before new memory is used.
bool KvMemory::grant(MemoryClass memory_class, uint64_t n_bytes) {
  bool granted = ledger_.grant(memory_class, n_bytes);
  if (granted || !would_fit(n_bytes)) return granted;
  while (!granted && drop_anything()) granted = ledger_.grant(memory_class, n_bytes);
  trim();
  return granted;
}

// Returns whether the bytes fit if all cached memory is evicted. If not, an eviction gains nothing.
bool KvMemory::would_fit(uint64_t n_bytes) const {
  const context::Ledger::Account account = ledger_.account();
  const uint64_t cached = account.of(MemoryClass::kKvCached) +
                          account.of(MemoryClass::kAdaptersCached) +
                          (other_cached_bytes_ ? other_cached_bytes_() : 0);
  return n_bytes <= saturating_subtract(account.budget, saturating_subtract(account.total, cached));
}

// Evicts data that can be read again in milliseconds before KV that must be computed again.
bool KvMemory::drop_anything() { return (drop_other_ && drop_other_()) || drop_cached(); }

void KvMemory::fit_budget() {
  const auto over = [this] {
    const context::Ledger::Account account = ledger_.account();
    return account.total > account.budget;
  };
  if (!over()) return;
  while (over() && drop_anything()) {
  }
  trim();
}

bool KvMemory::grant_rung(SequenceContext& context, size_t rung) {
  const uint64_t wanted = bytes_for(context.context_plan(), rung);
  if (wanted > context.granted_bytes() &&
      !grant(MemoryClass::kKvInUse, wanted - context.granted_bytes()))
    return false;
  context.grow(rung, std::max(wanted, context.granted_bytes()));
  return true;
}

size_t KvMemory::match_prefix(SequenceContext& context, std::span<const int32_t> tokens) {
  if (max_cached_ == 0) return 0;
  const uint64_t to_load = context.bytes_to_load(prefixes_, tokens);
  if (to_load != 0 && grant(MemoryClass::kKvCached, to_load)) context.load(prefixes_, tokens);
  const size_t n = context.match_prefix(prefixes_, tokens);
  settle_cached();
  return n;
}

void KvMemory::release_shared(SequenceContext& context) {
  context.release_shared();
  settle_cached();
}

void KvMemory::insert(const SequenceContext& context, std::span<const int32_t> tokens, bool ends) {
  if (max_cached_ != 0 && context.n_dropped() == 0) context.insert(prefixes_, tokens, ends);
}

kv::TextKv KvMemory::forget_text(std::span<const int32_t> tokens, const kv::TextMarks& marks) {
  const kv::TextKv forgotten = prefixes_.forget(tokens, marks);
  settle_cached();
  trim();
  return forgotten;
}

void KvMemory::forget_cached() {
  prefixes_.forget_file();
  while (prefixes_.evict_oldest()) {
  }
  settle_cached();
  trim();
}

void KvMemory::evict_out_of_window(SequenceContext& context) {
  if (context.evict_out_of_window()) settle_cached();
}

void KvMemory::take(SequenceContext& context, size_t n, size_t n_draft, bool ends) {
  while (!context.take(n, n_draft, ends)) {
    const bool dropped = drop_cached();
    BILLOW_CHECK(dropped);  // without cached blocks, there are enough for all sequences
  }
}

void KvMemory::compact(SequenceContext& context, const context::Compaction& compaction) {
  context.compact(compaction);
  if (shifts(context.context_plan())) trim();  // blocks of a gap are not used again
  settle_cached();
}

void KvMemory::release(SequenceContext& context) {
  release_soon(context);
  trim();
}

void KvMemory::release_soon(SequenceContext& context) {
  ledger_.give_back(MemoryClass::kKvInUse, context.release());
  settle_cached();
}

bool KvMemory::evict_oldest() {
  const uint64_t before = prefixes_.cached_bytes();
  if (!prefixes_.evict_oldest()) return false;
  evicted_bytes_ += before - std::min(before, prefixes_.cached_bytes());
  return true;
}

bool KvMemory::drop_cached() {
  if (!evict_oldest()) return false;
  settle_cached();
  return true;
}

// Updates the ledger from the index: blocks become cached when the last sequence that uses them
// ends.
void KvMemory::settle_cached() {
  if (max_cached_ == 0) return;
  const uint64_t granted = ledger_.account().of(MemoryClass::kKvCached);
  uint64_t cached = prefixes_.cached_bytes();
  bool dropped = false;
  while (cached > max_cached_ ||
         (cached > granted && !ledger_.grant(MemoryClass::kKvCached, cached - granted))) {
    dropped = evict_oldest();
    BILLOW_CHECK(dropped);
    cached = prefixes_.cached_bytes();
  }
  if (dropped) trim();
  if (granted > cached) ledger_.give_back(MemoryClass::kKvCached, granted - cached);
}

}  // namespace billow::engine

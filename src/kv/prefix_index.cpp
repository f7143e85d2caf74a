#include "kv/prefix_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace billow::kv {

// FNV-1a, one token at a time.
size_t PrefixIndex::KeyHash::operator()(const Key& key) const noexcept {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325 ^ key.parent ^ key.salt;
  for (const int32_t token : key.tokens) hash = (hash ^ static_cast<uint32_t>(token)) * kPrime;
  return hash ^ hash >> 32;
}

PrefixIndex::~PrefixIndex() {
  for (const auto& [key, entry] : entries_) {
    for (size_t g = 0; g < entry.blocks.size(); ++g)
      if (entry.blocks[g] != kNoBlock) cache_.pool(g).give_back_kept(entry.blocks[g]);
  }
}

// Returns the parent number of a text's first block. Numbers of entries rise from 1 and never get
// that large.
uint64_t PrefixIndex::root_of(const TextMarks& marks) noexcept {
  return UINT64_MAX - 2 * marks.adapter - (marks.is_long ? 1 : 0);
}

PrefixIndex::Key PrefixIndex::key_of(const Entry* parent, std::span<const int32_t> tokens,
                                     size_t block, const TextMarks& marks) {
  Key key{.parent = parent != nullptr ? parent->number : root_of(marks),
          .salt = parent != nullptr ? 0 : marks.salt};
  std::ranges::copy(tokens.subspan(block * kBlockPositions, kBlockPositions), key.tokens.begin());
  return key;
}

std::vector<PrefixIndex::Entry*> PrefixIndex::find(std::span<const int32_t> tokens, size_t n_blocks,
                                                   const TextMarks& marks) {
  std::vector<Entry*> chain;
  while (chain.size() < n_blocks) {
    const auto found =
        entries_.find(key_of(chain.empty() ? nullptr : chain.back(), tokens, chain.size(), marks));
    if (found == entries_.end()) break;
    chain.push_back(&found->second);
  }
  return chain;
}

PrefixIndex::Entry& PrefixIndex::insert_entry(Entry* parent, const Key& key,
                                              const TextMarks& marks) {
  const auto at = entries_.try_emplace(key).first;
  Entry& entry = at->second;
  entry.key = &at->first;
  entry.number = ++n_numbers_;
  entry.adapter = marks.adapter;
  entry.salt = marks.salt;
  entry.is_long = marks.is_long;
  entry.parent = parent;
  entry.depth = parent == nullptr ? 0 : parent->depth + 1;
  entry.blocks.assign(cache_.layout().groups.size(), kNoBlock);
  entry.place = others_.insert(others_.end(), &entry);
  if (parent != nullptr) ++parent->n_children;
  return entry;
}

void PrefixIndex::touch(std::span<Entry* const> chain) {
  for (size_t i = chain.size(); i > 0; --i) move_to_end(*chain[i - 1]);
}

void PrefixIndex::move_to_end(Entry& entry) {
  std::list<Entry*>& from = entry.has_memory ? by_use_ : others_;
  entry.has_memory =
      std::ranges::any_of(entry.blocks, [](BlockId block) { return block != kNoBlock; });
  std::list<Entry*>& to = entry.has_memory ? by_use_ : others_;
  to.splice(to.end(), from, entry.place);
}

void PrefixIndex::keep(Entry& entry, size_t group, BlockId block) {
  cache_.pool(group).keep(block);
  entry.blocks[group] = block;
}

void PrefixIndex::insert(std::span<const int32_t> tokens, const BlockTable& table,
                         const TextMarks& marks) {
  BILLOW_CHECK(table.gap_end() == 0 && tokens.size() <= table.n_positions());
  const size_t n_groups = cache_.layout().groups.size();
  const auto is_kept = [&](size_t group, size_t block) {
    const size_t stride = cache_.layout().groups[group].state_stride;
    return stride == 0 || keeps_state(block, tokens.size(), stride, marks);
  };
  // An entry without blocks, and without later entries that have blocks, would never be evicted.
  size_t n_blocks = tokens.size() / kBlockPositions;
  const auto keeps = [&](size_t block) {
    for (size_t g = 0; g < n_groups; ++g)
      if (table.blocks(g)[block] != kNoBlock && is_kept(g, block)) return true;
    return false;
  };
  while (n_blocks > 0 && !keeps(n_blocks - 1)) --n_blocks;
  std::vector<Entry*> chain = find(tokens, n_blocks, marks);
  while (chain.size() < n_blocks) {
    Entry* parent = chain.empty() ? nullptr : chain.back();
    chain.push_back(&insert_entry(parent, key_of(parent, tokens, chain.size(), marks), marks));
  }
  for (Entry* entry : chain) {
    for (size_t g = 0; g < n_groups; ++g) {
      const BlockId block = table.blocks(g)[entry->depth];
      if (entry->blocks[g] != kNoBlock || block == kNoBlock || !is_kept(g, entry->depth)) continue;
      keep(*entry, g, block);
    }
  }
  touch(chain);
  for (Entry* entry : chain)
    if (is_to_be_written(*entry)) wait_for_disk(*entry);
}

size_t PrefixIndex::first_seen(size_t group, size_t n_blocks) const {
  if (cache_.layout().states == group) return n_blocks - std::min<size_t>(n_blocks, 1);
  const size_t window = cache_.layout().groups[group].window;
  const size_t next = n_blocks * kBlockPositions;
  return window == 0 || next + 1 <= window ? 0 : (next + 1 - window) / kBlockPositions;
}

bool PrefixIndex::has(const Entry& entry, size_t group, bool on_disk) const {
  if (entry.blocks[group] != kNoBlock) return true;
  return on_disk && entry.stored != nullptr && entry.stored->blocks[group].has_value();
}

size_t PrefixIndex::longest(std::span<Entry* const> chain, bool on_disk) const {
  const auto serves = [&](size_t n_blocks) {
    for (size_t g = 0; g < cache_.layout().groups.size(); ++g) {
      for (size_t b = first_seen(g, n_blocks); b < n_blocks; ++b)
        if (!has(*chain[b], g, on_disk)) return false;
    }
    return true;
  };
  size_t n_blocks = chain.size();
  while (n_blocks > 0 && !serves(n_blocks)) --n_blocks;
  return n_blocks;
}

PrefixIndex::Shared PrefixIndex::match(std::span<const int32_t> tokens, size_t n_max,
                                       BlockTable& table, const TextMarks& marks) {
  const std::vector<Entry*> chain =
      find(tokens, std::min(tokens.size(), n_max) / kBlockPositions, marks);
  touch(chain);
  const size_t n_groups = cache_.layout().groups.size();
  const size_t n_blocks = longest(chain, false);
  for (size_t g = 0; g < n_groups; ++g) {
    std::vector<BlockId> blocks(n_blocks, kNoBlock);
    for (size_t b = first_seen(g, n_blocks); b < n_blocks; ++b) blocks[b] = chain[b]->blocks[g];
    table.append_shared(g, std::move(blocks));
  }
  return {.n_tokens = n_blocks * kBlockPositions, .n_known_blocks = chain.size()};
}

std::vector<KnownText> PrefixIndex::latest(size_t n_max, uint64_t adapter) const {
  std::vector<const Entry*> ends;
  for (const std::list<Entry*>* list : {&by_use_, &others_}) {
    for (auto it = list->rbegin(); it != list->rend() && ends.size() < n_max; ++it)
      if ((*it)->n_children == 0 && (*it)->adapter == adapter) ends.push_back(*it);
  }
  std::vector<KnownText> texts;
  for (const Entry* entry : ends) {
    texts.push_back({.tokens = std::vector<int32_t>((entry->depth + 1) * kBlockPositions),
                     .salt = entry->salt});
    std::vector<int32_t>& text = texts.back().tokens;
    for (; entry != nullptr; entry = entry->parent) {
      const auto at = static_cast<std::ptrdiff_t>(entry->depth * kBlockPositions);
      std::ranges::copy(entry->key->tokens, text.begin() + at);
    }
  }
  return texts;
}

bool PrefixIndex::is_cached(size_t group, BlockId block) const {
  return block != kNoBlock && cache_.pool(group).is_cached(block);
}

size_t PrefixIndex::cached_bytes() const noexcept {
  size_t sum = 0;
  for (size_t g = 0; g < cache_.layout().groups.size(); ++g)
    sum += cache_.pool(g).n_cached() * cache_.pool(g).block_bytes();
  return sum;
}

bool PrefixIndex::evict_oldest() {
  const auto has_cached = [&](const Entry& entry) {
    for (size_t g = 0; g < entry.blocks.size(); ++g)
      if (is_cached(g, entry.blocks[g])) return true;
    return false;
  };
  if (cached_bytes() == 0) return false;
  // Entries in use move to the end, so that the next call does not visit them again.
  while (!has_cached(*by_use_.front())) move_to_end(*by_use_.front());
  Entry& oldest = *by_use_.front();
  for (size_t g = 0; g < oldest.blocks.size(); ++g) {
    if (is_cached(g, oldest.blocks[g]))
      cache_.pool(g).give_back_kept(std::exchange(oldest.blocks[g], kNoBlock));
  }
  move_to_end(oldest);
  erase_empty(&oldest);
  return true;
}

// An entry without blocks stays while it has children.
bool PrefixIndex::is_empty(const Entry& entry) const {
  for (size_t g = 0; g < entry.blocks.size(); ++g)
    if (has(entry, g, true)) return false;
  return entry.n_children == 0;
}

void PrefixIndex::erase(Entry& entry) {
  if (entry.parent != nullptr) --entry.parent->n_children;
  if (entry.waiting) to_write_.erase(*entry.waiting);
  (entry.has_memory ? by_use_ : others_).erase(entry.place);
  entries_.erase(entries_.find(*entry.key));
}

void PrefixIndex::erase_empty(Entry* entry) {
  while (entry != nullptr && is_empty(*entry)) {
    Entry* parent = entry->parent;
    erase(*entry);
    entry = parent;
  }
}

}  // namespace billow::kv

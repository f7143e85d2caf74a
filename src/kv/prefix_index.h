// Blocks by the tokens whose KV they hold, so that a sequence that begins like an earlier one goes
// on behind what they share. Whole blocks only, which nobody writes to again. The index is an owner
// of its blocks: those that nobody else owns are parked. Used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_table.h"
#include "kv/layout.h"

namespace billow::kv {

class PrefixIndex {
 public:
  explicit PrefixIndex(Cache& cache) : cache_(cache) {}
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // `table` holds the KV of `tokens`, from position 0 on and without a gap. Blocks that are known
  // already are left out, so are those that a window has left, and states that are not to be kept.
  void add(std::span<const int32_t> tokens, const BlockTable& table, const TextMarks& marks = {});

  struct Shared {
    size_t n_tokens = 0;        // that the table holds
    size_t n_known_blocks = 0;  // whose KV is known; without a state, some may be of no use
  };
  // Lets `table`, which is empty, own the blocks of as many leading tokens as there are: whole
  // blocks, at most n_most tokens, in groups with a window those that the next query sees, and of
  // states the last.
  Shared share(std::span<const int32_t> tokens, size_t n_most, BlockTable& table,
               const TextMarks& marks = {});

  // Gives up the parked blocks of what was not used for longest, the end of a text before its
  // beginning. Blocks that sequences own count as used now. False when nothing is parked. Takes
  // constant time, averaged over calls.
  bool drop_oldest();

  // The tokens of what was of use last with this adapter: at most n_most texts, the latest first,
  // in whole blocks. None of them is the beginning of another.
  std::vector<std::vector<int32_t>> latest(size_t n_most, uint64_t adapter = 0) const;

  size_t parked_bytes() const noexcept;  // constant time
  size_t n_entries() const noexcept { return entries_.size(); }

 private:
  // An entry is known by its tokens and by the entry of those before: hashes find it, but only
  // equality counts.
  struct Key {
    uint64_t parent = 0;  // its number; none: root_of()
    std::array<int32_t, kBlockPositions> tokens = {};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const noexcept;
  };
  struct Entry {
    const Key* key = nullptr;
    uint64_t number = 0;
    Entry* parent = nullptr;
    size_t depth = 0;  // blocks before it
    size_t n_children = 0;
    uint64_t adapter = 0;
    std::vector<BlockId> blocks;         // [group]; kNoBlock: not there
    std::list<Entry*>::iterator by_use;  // in by_use_
  };
  using Entries = std::unordered_map<Key, Entry, KeyHash>;

  static uint64_t root_of(const TextMarks& marks) noexcept;
  static Key key_of(const Entry* parent, std::span<const int32_t> tokens, size_t block,
                    const TextMarks& marks);
  // The entries of the leading blocks of `tokens`, as far as there are any.
  std::vector<Entry*> find(std::span<const int32_t> tokens, size_t n_blocks,
                           const TextMarks& marks);
  Entry& insert(Entry* parent, const Key& key, const TextMarks& marks);
  // All of a text's entries were used now.
  void touch(std::span<Entry* const> chain);
  // The first block of a group that a query behind n_blocks blocks needs.
  size_t first_seen(size_t group, size_t n_blocks) const;
  bool is_parked(size_t group, BlockId block) const;
  void erase_empty(Entry* entry);

  Cache& cache_;
  Entries entries_;
  // The entry that was not used for longest comes first; a text's end comes before its beginning.
  std::list<Entry*> by_use_;
  uint64_t n_numbers_ = 0;
};

}  // namespace billow::kv

// The prefix cache: finds KV blocks by the tokens that they hold. A sequence that begins like an
// earlier one continues after the shared prefix. The index has whole blocks only, which are never
// written again. The index is an owner of its blocks; blocks without other owners are cached. With
// a file, the blocks are on disk, too. They are read again when a text with the same prefix comes
// after their memory was reused. One thread at a time may use the index.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_table.h"
#include "kv/layout.h"
#include "kv/prefix_file.h"

namespace billow::kv {

// A text in the index.
struct KnownText {
  std::vector<int32_t> tokens;  // whole blocks
  uint64_t salt = 0;            // TextMarks::salt
  bool operator==(const KnownText&) const = default;
};

// The size of the KV of a part of a text, in whole blocks.
struct TextKv {
  size_t n_tokens = 0;
  uint64_t n_bytes = 0;
};

class PrefixIndex {
 public:
  explicit PrefixIndex(Cache& cache) : cache_(cache) {}
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // Adds the blocks of `table`, which holds the KV of `tokens` from position 0 on, without a gap.
  // Skips blocks that the index has, blocks before a window, and states that are not to be kept.
  void insert(std::span<const int32_t> tokens, const BlockTable& table,
              const TextMarks& marks = {});

  struct Shared {
    size_t n_tokens = 0;  // that the table got blocks for
    // Blocks of the prefix that the index has. Without a state, some may be unusable.
    size_t n_known_blocks = 0;
  };
  // Adds `table`, which is empty, as an owner of the blocks of the longest known prefix: whole
  // blocks, at most n_max tokens. In groups with a window, the table gets the blocks that the next
  // query sees; of the states, the last one.
  Shared match(std::span<const int32_t> tokens, size_t n_max, BlockTable& table,
               const TextMarks& marks = {});

  // Evicts the cached blocks of the least recently used entry, the end of a text before its
  // beginning. Blocks that sequences own count as just used. Returns false if nothing is cached.
  // Takes amortized constant time.
  bool evict_oldest();

  // Returns the most recently used texts of this adapter: at most n_max texts, the latest first. No
  // text is a prefix of another with the same salt and the same TextMarks::is_long.
  std::vector<KnownText> latest(size_t n_max, uint64_t adapter = 0) const;

  // Uses `file` from here on: its records become known, and new entries are queued for writing.
  // REQUIRES: the index is empty.
  void attach(std::unique_ptr<PrefixFile> file);
  // Texts of adapters are not written.
  bool has_to_write() const noexcept { return !to_write_.empty(); }
  // Writes the first queued entry, and those entries before it that the newer file does not have.
  // If the disk fails, logs a warning and writes nothing from then on. REQUIRES: has_to_write().
  void write_one();
  // Returns the bytes of the blocks that load() would read.
  size_t bytes_to_load(std::span<const int32_t> tokens, size_t n_max, const TextMarks& marks = {});
  // Reads blocks so that match() of the same tokens finds the longest prefix that memory and disk
  // have together. The blocks that were read are cached. Damaged blocks are removed from the index.
  void load(std::span<const int32_t> tokens, size_t n_max, const TextMarks& marks = {});
  // Removes all places on disk from the index, and empties the files.
  void forget_file();

  // Returns how much of a text's KV is on disk, from its beginning on.
  TextKv on_disk(std::span<const int32_t> tokens, const TextMarks& marks = {});
  // Removes the end of a text from the index, as far as no other text has it. Returns how much that
  // was; the bytes are those in memory. Sequences keep the blocks that they use. Records on disk
  // stay until their file is emptied, and an index of a later process knows them again.
  TextKv forget(std::span<const int32_t> tokens, const TextMarks& marks = {});

  size_t cached_bytes() const noexcept;  // takes constant time
  size_t n_entries() const noexcept { return entries_.size(); }

 private:
  // An entry is identified by its tokens and by the entry before it. Hashes find candidates, but
  // only equality counts.
  struct Key {
    uint64_t parent = 0;  // number of the entry before; first block of a text: root_of()
    std::array<int32_t, kBlockPositions> tokens = {};
    uint64_t salt = 0;  // first block of a text: TextMarks::salt; later blocks: 0
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const noexcept;
  };
  // The part of an entry that is on disk.
  struct Stored {
    std::array<uint64_t, 2> records{};                     // [file] id of its record; 0: none
    std::vector<std::optional<PrefixFile::Place>> blocks;  // [group]
  };
  struct Entry {
    const Key* key = nullptr;
    uint64_t number = 0;
    Entry* parent = nullptr;
    size_t depth = 0;  // number of blocks before it
    size_t n_children = 0;
    uint64_t adapter = 0;
    uint64_t salt = 0;
    bool is_long = false;         // TextMarks::is_long
    std::vector<BlockId> blocks;  // [group]; kNoBlock: not in memory
    bool has_memory = false;      // true: in by_use_; false: in others_
    std::list<Entry*>::iterator place;
    std::optional<std::list<Entry*>::iterator> waiting;  // place in to_write_; none: not queued
    std::unique_ptr<Stored> stored;                      // null: not on disk
  };
  using Entries = std::unordered_map<Key, Entry, KeyHash>;

  static uint64_t root_of(const TextMarks& marks) noexcept;
  static Key key_of(const Entry* parent, std::span<const int32_t> tokens, size_t block,
                    const TextMarks& marks);
  // Returns the entries of the leading blocks of `tokens`, up to the first unknown block.
  std::vector<Entry*> find(std::span<const int32_t> tokens, size_t n_blocks,
                           const TextMarks& marks);
  Entry& insert_entry(Entry* parent, const Key& key, const TextMarks& marks);
  // Marks all entries of a text as just used.
  void touch(std::span<Entry* const> chain);
  void move_to_end(Entry& entry);
  bool has(const Entry& entry, size_t group, bool on_disk) const;
  // Returns how many blocks of the chain can be shared: from memory, or also from disk.
  size_t longest(std::span<Entry* const> chain, bool on_disk) const;
  void keep(Entry& entry, size_t group, BlockId block);
  bool is_empty(const Entry& entry) const;
  void erase(Entry& entry);
  bool is_to_be_written(const Entry& entry) const;
  void wait_for_disk(Entry& entry);
  std::vector<Entry*> without_record(Entry& entry) const;
  bool is_unwritten(const Entry& entry, size_t group) const;
  uint64_t bytes_to_write(const Entry& entry) const;
  uint64_t bytes_of_text(const Entry& entry) const;
  [[nodiscard]] bool write(Entry& entry);
  [[nodiscard]] bool write_record(Entry& entry);
  void forget_places(uint8_t file);
  void forget_emptied();
  void stop_writing();
  // Calls each(entry, group) for the blocks that must be read before n_blocks of the chain can be
  // shared. Stops when `each` returns false.
  template <typename Each>
  void for_blocks_to_load(std::span<Entry* const> chain, size_t n_blocks, const Each& each);
  // Returns the first block of a group that a query after n_blocks blocks needs.
  size_t first_seen(size_t group, size_t n_blocks) const;
  bool is_cached(size_t group, BlockId block) const;
  void erase_empty(Entry* entry);  // also the entries before it that become empty

  Cache& cache_;
  Entries entries_;
  // Entries with blocks in memory, least recently used first. The end of a text comes before its
  // beginning.
  std::list<Entry*> by_use_;
  std::list<Entry*> others_;  // entries without blocks in memory, in the same order
  uint64_t n_numbers_ = 0;
  std::unique_ptr<PrefixFile> file_;
  std::list<Entry*> to_write_;
  bool is_writable_ = true;  // false after the disk has failed
};

}  // namespace billow::kv

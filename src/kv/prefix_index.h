// Blocks by the tokens whose KV they hold, so that a sequence that begins like an earlier one goes
// on behind what they share. Whole blocks only, which nobody writes to again. The index is an owner
// of its blocks: those that nobody else owns are cached. With a file, blocks are on disk, too, and
// are read again when a text that begins alike comes after their memory went to others. Used by one
// thread at a time.
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
  // blocks, at most n_max tokens, in groups with a window those that the next query sees, and of
  // states the last.
  Shared share(std::span<const int32_t> tokens, size_t n_max, BlockTable& table,
               const TextMarks& marks = {});

  // Gives up the cached blocks of what was not used for longest, the end of a text before its
  // beginning. Blocks that sequences own count as used now. False when nothing is cached. Takes
  // constant time, averaged over calls.
  bool drop_oldest();

  // The tokens of what was of use last with this adapter: at most n_max texts, the latest first,
  // in whole blocks. None of them is the beginning of another.
  std::vector<std::vector<int32_t>> latest(size_t n_max, uint64_t adapter = 0) const;

  // From here on what `file` has is known, and what is added waits to be written to it. REQUIRES:
  // nothing was added.
  void attach(std::unique_ptr<PrefixFile> file);
  // Texts of adapters are not written.
  bool has_to_write() const noexcept { return !to_write_.empty(); }
  // Writes the blocks of 64 tokens, and what of the tokens before them is not in the newer file.
  // Where the disk fails, nothing is written any more, with a warning. REQUIRES: has_to_write().
  void write_one();
  // The bytes of the blocks that load() would read.
  size_t bytes_to_load(std::span<const int32_t> tokens, size_t n_max, const TextMarks& marks = {});
  // Reads blocks so that share() of the same tokens finds as many as memory and disk have together.
  // What was read is cached. Blocks that are damaged are forgotten.
  void load(std::span<const int32_t> tokens, size_t n_max, const TextMarks& marks = {});
  // Forgets all that is on disk, and empties the files.
  void forget_file();

  size_t cached_bytes() const noexcept;  // constant time
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
  // What of an entry is on disk.
  struct Stored {
    std::array<uint64_t, 2> records{};                     // [file] its record; 0: none
    std::vector<std::optional<PrefixFile::Place>> blocks;  // [group]
  };
  struct Entry {
    const Key* key = nullptr;
    uint64_t number = 0;
    Entry* parent = nullptr;
    size_t depth = 0;  // blocks before it
    size_t n_children = 0;
    uint64_t adapter = 0;
    bool is_long = false;         // TextMarks::is_long
    std::vector<BlockId> blocks;  // [group]; kNoBlock: not in memory
    bool has_memory = false;      // it stands in by_use_, else in others_
    std::list<Entry*>::iterator place;
    std::optional<std::list<Entry*>::iterator> waiting;  // in to_write_; none: it does not wait
    std::unique_ptr<Stored> stored;                      // null: not on disk
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
  void move_to_end(Entry& entry);
  bool has(const Entry& entry, size_t group, bool on_disk) const;
  // How many blocks of the chain share() could give: from memory, or from disk, too.
  size_t longest(std::span<Entry* const> chain, bool on_disk) const;
  void keep(Entry& entry, size_t group, BlockId block);
  bool is_empty(const Entry& entry) const;
  void erase(Entry& entry);
  bool is_to_be_written(const Entry& entry) const;
  void wait_for_disk(Entry& entry);
  std::vector<Entry*> without_record(Entry& entry) const;
  [[nodiscard]] bool write(Entry& entry);
  [[nodiscard]] bool write_record(Entry& entry);
  void forget_places(uint8_t file);
  void stop_writing();
  // Calls each(entry, group) for the blocks that are read so that n_blocks of the chain can be
  // shared, until it returns false.
  template <typename Each>
  void for_blocks_to_load(std::span<Entry* const> chain, size_t n_blocks, const Each& each);
  // The first block of a group that a query behind n_blocks blocks needs.
  size_t first_seen(size_t group, size_t n_blocks) const;
  bool is_cached(size_t group, BlockId block) const;
  void erase_empty(Entry* entry);  // and those before it that are empty then

  Cache& cache_;
  Entries entries_;
  // Entries with blocks in memory. The one that was not used for longest comes first; a text's end
  // comes before its beginning.
  std::list<Entry*> by_use_;
  std::list<Entry*> others_;  // in the same order
  uint64_t n_numbers_ = 0;
  std::unique_ptr<PrefixFile> file_;
  std::list<Entry*> to_write_;
  bool is_writable_ = true;  // the disk has not failed
};

}  // namespace billow::kv

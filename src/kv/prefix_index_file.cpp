// The part of PrefixIndex that handles blocks on disk.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "kv/cache.h"
#include "kv/prefix_index.h"

namespace billow::kv {

void PrefixIndex::attach(std::unique_ptr<PrefixFile> file) {
  BILLOW_CHECK(entries_.empty());
  file_ = std::move(file);
  std::map<std::pair<uint8_t, uint64_t>, Entry*> by_record;
  file_->scan([&](uint8_t number, const PrefixFile::Record& record) {
    Entry* parent = nullptr;
    if (record.parent != 0) {
      const auto found = by_record.find({number, record.parent});
      if (found == by_record.end()) return;
      parent = found->second;
    }
    const TextMarks marks = {.is_long = record.is_long, .salt = record.salt};
    const Key key = {.parent = parent != nullptr ? parent->number : root_of(marks),
                     .tokens = record.tokens,
                     .salt = parent != nullptr ? 0 : record.salt};
    const auto known = entries_.find(key);
    Entry& entry = known != entries_.end() ? known->second : insert_entry(parent, key, marks);
    if (entry.stored == nullptr) {
      entry.stored = std::make_unique<Stored>();
      entry.stored->blocks.resize(entry.blocks.size());
    }
    entry.stored->records[number] = record.id;
    by_record[{number, record.id}] = &entry;
    for (size_t g = 0; g < entry.blocks.size(); ++g)
      if (record.blocks[g]) entry.stored->blocks[g] = record.blocks[g];
    std::vector<Entry*> chain;
    for (Entry* e = &entry; e != nullptr; e = e->parent) chain.insert(chain.begin(), e);
    touch(chain);
  });
}

// Returns whether the entry has a block of the group in memory that is not in the newer file.
bool PrefixIndex::is_unwritten(const Entry& entry, size_t group) const {
  if (entry.blocks[group] == kNoBlock) return false;
  return entry.stored == nullptr || !entry.stored->blocks[group] ||
         entry.stored->blocks[group]->file != file_->newer();
}

bool PrefixIndex::is_to_be_written(const Entry& entry) const {
  if (file_ == nullptr || !is_writable_ || entry.adapter != 0 || entry.waiting) return false;
  for (size_t g = 0; g < entry.blocks.size(); ++g)
    if (is_unwritten(entry, g)) return true;
  return false;
}

// Returns the bytes that write_record() appends for the entry.
uint64_t PrefixIndex::bytes_to_write(const Entry& entry) const {
  uint64_t sum = file_->head_bytes();
  for (size_t g = 0; g < entry.blocks.size(); ++g)
    if (is_unwritten(entry, g)) sum += cache_.pool(g).block_bytes();
  return sum;
}

// Returns the bytes on disk of the text up to the entry, after all of it is written. Most entries
// of a model with states have no block of that group.
uint64_t PrefixIndex::bytes_of_text(const Entry& entry) const {
  uint64_t sum = 0;
  for (const Entry* e = &entry; e != nullptr; e = e->parent) {
    sum += file_->head_bytes();
    for (size_t g = 0; g < e->blocks.size(); ++g)
      if (has(*e, g, true)) sum += cache_.pool(g).block_bytes();
  }
  return sum;
}

void PrefixIndex::wait_for_disk(Entry& entry) {
  entry.waiting = to_write_.insert(to_write_.end(), &entry);
}

void PrefixIndex::write_one() {
  BILLOW_CHECK(has_to_write());
  Entry& entry = *to_write_.front();
  to_write_.pop_front();
  entry.waiting.reset();
  if (is_to_be_written(entry) && !write(entry)) stop_writing();
}

// Blocks on disk stay readable.
void PrefixIndex::stop_writing() {
  log::warn(
      "conversations are no longer kept on disk: the disk cannot be written, or is nearly full");
  for (Entry* entry : to_write_) entry->waiting.reset();
  to_write_.clear();
  is_writable_ = false;
}

// Returns the entry and the entries before it that have no record in the newer file, first ones
// first.
std::vector<PrefixIndex::Entry*> PrefixIndex::without_record(Entry& entry) const {
  std::vector<Entry*> chain = {&entry};
  for (Entry* e = entry.parent; e != nullptr; e = e->parent) {
    if (e->stored != nullptr && e->stored->records[file_->newer()] != 0) break;
    chain.push_back(e);
  }
  std::ranges::reverse(chain);
  return chain;
}

// Forgets what another process has removed from the disk. Blocks in memory are to be written again.
void PrefixIndex::forget_emptied() {
  const std::vector<uint8_t> emptied = file_->find_emptied();
  if (emptied.empty()) return;
  for (const uint8_t file : emptied) forget_places(file);
  std::vector<Entry*> again;
  for (auto& [key, entry] : entries_)
    if (is_to_be_written(entry)) again.push_back(&entry);
  std::ranges::sort(again, {}, [](const Entry* e) { return std::pair(e->depth, e->number); });
  for (Entry* entry : again) wait_for_disk(*entry);
}

// Returns false if the disk fails. Skips a text that is longer than a file.
bool PrefixIndex::write(Entry& entry) {
  // A turn would empty a file in vain. The beginning of the text stays on disk.
  if (bytes_of_text(entry) > file_->max_bytes()) return true;
  forget_emptied();
  for (int turns = 0; turns < 2; ++turns) {
    const std::vector<Entry*> chain = without_record(entry);
    uint64_t n_bytes = 0;
    for (const Entry* e : chain) n_bytes += bytes_to_write(*e);
    const PrefixFile::Room room = file_->reserve(n_bytes);
    if (room == PrefixFile::Room::kNone) return true;
    if (room == PrefixFile::Room::kReserved)
      return std::ranges::all_of(chain, [this](Entry* e) { return write_record(*e); });
    if (turns > 0) return true;
    if (!file_->turn()) return false;
    forget_places(file_->newer());
  }
  return true;
}

bool PrefixIndex::write_record(Entry& entry) {
  const uint8_t newer = file_->newer();
  std::vector<std::span<const std::byte>> blocks(entry.blocks.size());
  for (size_t g = 0; g < blocks.size(); ++g) {
    if (!is_unwritten(entry, g)) continue;
    const BlockPool& pool = cache_.pool(g);
    blocks[g] = {pool.base() + entry.blocks[g] * pool.block_bytes(), pool.block_bytes()};
  }
  PrefixFile::Record record = {
      .parent = entry.parent == nullptr ? 0 : entry.parent->stored->records[newer],
      .is_long = entry.is_long,
      .salt = entry.salt,
      .tokens = entry.key->tokens,
      .blocks = {}};
  if (!file_->append(record, blocks)) return false;
  if (entry.stored == nullptr) {
    entry.stored = std::make_unique<Stored>();
    entry.stored->blocks.resize(blocks.size());
  }
  entry.stored->records[newer] = record.id;
  for (size_t g = 0; g < blocks.size(); ++g)
    if (record.blocks[g]) entry.stored->blocks[g] = record.blocks[g];
  return true;
}

// Removes all places in a file that was emptied.
void PrefixIndex::forget_places(uint8_t file) {
  std::vector<Entry*> changed;
  for (auto& [key, entry] : entries_) {
    if (entry.stored == nullptr) continue;
    entry.stored->records[file] = 0;
    for (std::optional<PrefixFile::Place>& place : entry.stored->blocks)
      if (place && place->file == file) place.reset();
    changed.push_back(&entry);
  }
  std::ranges::sort(changed, {}, [](const Entry* e) { return std::pair(~e->depth, e->number); });
  for (Entry* entry : changed)
    if (is_empty(*entry)) erase(*entry);  // children were erased first
}

TextKv PrefixIndex::on_disk(std::span<const int32_t> tokens, const TextMarks& marks) {
  TextKv found;
  for (const Entry* entry : find(tokens, tokens.size() / kBlockPositions, marks)) {
    if (entry->stored == nullptr || entry->stored->records == std::array<uint64_t, 2>{}) break;
    found.n_tokens += kBlockPositions;
    for (size_t g = 0; g < entry->stored->blocks.size(); ++g)
      if (entry->stored->blocks[g]) found.n_bytes += cache_.layout().groups[g].block_bytes;
  }
  return found;
}

TextKv PrefixIndex::forget(std::span<const int32_t> tokens, const TextMarks& marks) {
  TextKv found;
  const std::vector<Entry*> chain = find(tokens, tokens.size() / kBlockPositions, marks);
  for (size_t i = chain.size(); i > 0 && chain[i - 1]->n_children == 0; --i) {
    Entry& entry = *chain[i - 1];
    for (size_t g = 0; g < entry.blocks.size(); ++g) {
      if (entry.blocks[g] == kNoBlock) continue;
      cache_.pool(g).give_back_kept(entry.blocks[g]);
      found.n_bytes += cache_.pool(g).block_bytes();
    }
    found.n_tokens += kBlockPositions;
    erase(entry);
  }
  return found;
}

void PrefixIndex::forget_file() {
  if (file_ == nullptr) return;
  for (Entry* entry : to_write_) entry->waiting.reset();
  to_write_.clear();
  for (int i = 0; i < 2; ++i) {
    if (!file_->turn()) is_writable_ = false;
    forget_places(file_->newer());
  }
}

template <typename Each>
void PrefixIndex::for_blocks_to_load(std::span<Entry* const> chain, size_t n_blocks,
                                     const Each& each) {
  for (size_t g = 0; g < cache_.layout().groups.size(); ++g) {
    for (size_t b = first_seen(g, n_blocks); b < n_blocks; ++b)
      if (chain[b]->blocks[g] == kNoBlock && !each(*chain[b], g)) return;
  }
}

size_t PrefixIndex::bytes_to_load(std::span<const int32_t> tokens, size_t n_max,
                                  const TextMarks& marks) {
  if (file_ == nullptr) return 0;
  forget_emptied();
  const std::vector<Entry*> chain =
      find(tokens, std::min(tokens.size(), n_max) / kBlockPositions, marks);
  touch(chain);
  const size_t n_blocks = longest(chain, true);
  if (n_blocks <= longest(chain, false)) return 0;
  size_t sum = 0;
  for_blocks_to_load(chain, n_blocks, [&](const Entry&, size_t g) {
    sum += cache_.pool(g).block_bytes();
    return true;
  });
  return sum;
}

void PrefixIndex::load(std::span<const int32_t> tokens, size_t n_max, const TextMarks& marks) {
  if (file_ == nullptr) return;
  const std::vector<Entry*> chain =
      find(tokens, std::min(tokens.size(), n_max) / kBlockPositions, marks);
  const size_t n_blocks = longest(chain, true);
  if (n_blocks <= longest(chain, false)) return;
  std::vector<BlockId> last(cache_.layout().groups.size(), kNoBlock);
  for_blocks_to_load(chain, n_blocks, [&](Entry& entry, size_t g) {
    BlockPool& pool = cache_.pool(g);
    const std::optional<BlockId> block = pool.take(last[g]);
    if (!block) return false;
    last[g] = *block;
    std::optional<PrefixFile::Place>& place = entry.stored->blocks[g];
    const bool is_good =
        file_->read(*place, {pool.base() + *block * pool.block_bytes(), pool.block_bytes()});
    if (is_good) keep(entry, g, *block);
    if (!is_good) place.reset();
    pool.give_back(*block);
    return is_good;
  });
  touch(chain);
}

}  // namespace billow::kv

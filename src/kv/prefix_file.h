// Blocks of KV on disk, so that texts that were evaluated once need not be evaluated again after
// their memory went to others, or after a restart. A store is two files that are only appended to:
// new records go to the newer file. When it is full, the older file is emptied and becomes the
// newer one. Records and blocks have checksums: what is damaged is as if it had never been written.
// One thread at a time; one process has a store at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/layout.h"

namespace billow::kv {

struct PrefixFileOptions {
  std::string folder;      // empty: nothing is kept
  uint64_t max_bytes = 0;  // of both files together; 0: nothing is kept
  std::string name;        // of the files, without their ends
  std::string contents;    // everything that KV depends on but tokens; a file with other is emptied
};

class PrefixFile {
 public:
  // What a record takes beside its blocks, at most.
  static constexpr size_t kMaxRecordHead = 4096;

  // Where a block lies. `file` is 0 or 1.
  struct Place {
    uint64_t offset = 0;
    uint64_t sum = 0;
    uint8_t file = 0;
    bool operator==(const Place&) const = default;
  };
  // 64 tokens and the blocks that hold their KV.
  struct Record {
    uint64_t id = 0;       // of the record: its offset in its file
    uint64_t parent = 0;   // the record of the 64 tokens before, in the same file; 0: none
    bool is_long = false;  // TextMarks::is_long
    std::array<int32_t, kBlockPositions> tokens{};
    std::vector<std::optional<Place>> blocks;  // [groups]
  };

  // Opens the files, or makes them, and removes those of models that are gone. The contents' first
  // line is the path of the model. Null if the folder or the limit is empty, or if another process
  // has the files; `why` gets the reason. Throws Error if the files cannot be made.
  static std::unique_ptr<PrefixFile> open(const PrefixFileOptions& options, const Layout& layout,
                                          std::string* why);
  ~PrefixFile();
  PrefixFile(const PrefixFile&) = delete;
  PrefixFile& operator=(const PrefixFile&) = delete;

  // Calls `each` with all records, older ones first. A record's parent comes before it. What is not
  // whole at a file's end is cut off. REQUIRES: called once, before the other functions.
  void scan(const std::function<void(uint8_t file, const Record& record)>& each);

  // The file that gets new records.
  uint8_t newer() const noexcept { return newer_; }
  // Empties the older file, which becomes the newer one: its places and records are no longer
  // valid. False when the system cannot write.
  [[nodiscard]] bool turn();
  // Whether n_bytes of records fit into the newer file.
  bool has_room(uint64_t n_bytes) const noexcept {
    return files_[newer_].n_bytes <= max_bytes_ && n_bytes <= max_bytes_ - files_[newer_].n_bytes;
  }
  // Appends a record with the bytes of its blocks, one for each group, empty where there is none,
  // to the newer file, and sets its id and places. False when the system cannot write: the file is
  // as it was before.
  [[nodiscard]] bool append(Record& record, std::span<const std::span<const std::byte>> blocks);
  // Reads a block; false if it cannot be read or is damaged.
  [[nodiscard]] bool read(const Place& place, std::span<std::byte> out) const;

 private:
  struct File {
    std::string path;
    int fd = -1;
    uint64_t n_bytes = 0;
    uint64_t turn = 0;  // the file with the greater one is newer
  };
  PrefixFile(const PrefixFileOptions& options, const Layout& layout);
  bool open_file(size_t i);
  bool read_head(File& file) const;
  void empty(File& file, uint64_t turn);
  void scan_file(uint8_t number, const std::function<void(const Record&)>& each);

  uint64_t max_bytes_;  // of a file
  std::string contents_;
  std::vector<size_t> block_bytes_;  // [groups]
  std::array<File, 2> files_;
  uint8_t newer_ = 0;
};

}  // namespace billow::kv

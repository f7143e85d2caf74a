// Stores KV blocks on disk. A text that was evaluated once need not be evaluated again after a
// restart, or after its memory was reused. A store is two append-only files. New records go to the
// newer file. When the newer file is full, the older file is emptied and becomes the newer one.
// Records and blocks have checksums; damaged ones are ignored. One thread at a time may use a
// store, and one process at a time may have it open.
//
// The files of all models share a folder, which has a max size. If it is full, the least recently
// used file makes room. If another process has that file open, the file is emptied: the other
// process notices, and evaluates its texts again.
#pragma once

#include <array>
#include <chrono>
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
  std::string folder;      // empty: nothing is stored
  uint64_t max_bytes = 0;  // of the folder, with the files of other models; 0: nothing is stored
  std::string name;        // of the files, without their suffixes
  // Everything except tokens that the KV depends on. A file with other contents is emptied.
  std::string contents;
  // How long to wait for files that another process has open. A process that was killed keeps its
  // files until all of its threads have ended.
  std::chrono::milliseconds max_wait{5000};
};

class PrefixFile {
 public:
  // Max bytes of a record without its blocks.
  static constexpr size_t kMaxRecordHead = 4096;

  // Location of a block. `file` is 0 or 1.
  struct Place {
    uint64_t offset = 0;
    uint64_t sum = 0;
    uint8_t file = 0;
    bool operator==(const Place&) const = default;
  };
  // 64 tokens and the blocks that hold their KV.
  struct Record {
    uint64_t id = 0;       // the record's offset in its file
    uint64_t parent = 0;   // id of the record of the 64 tokens before, in the same file; 0: none
    bool is_long = false;  // TextMarks::is_long
    uint64_t salt = 0;     // TextMarks::salt
    std::array<int32_t, kBlockPositions> tokens{};
    std::vector<std::optional<Place>> blocks;  // [groups]
  };

  // Opens the files, creates them if they do not exist, and removes files of models that no longer
  // exist. The first line of the contents is the path of the model. Returns null and sets `why` if
  // the folder or the limit is empty, or if another process still has the files open after
  // options.max_wait. Throws Error if the files cannot be created or locked.
  static std::unique_ptr<PrefixFile> open(const PrefixFileOptions& options, const Layout& layout,
                                          std::string* why);
  ~PrefixFile();
  PrefixFile(const PrefixFile&) = delete;
  PrefixFile& operator=(const PrefixFile&) = delete;

  // Calls `each` with all records, older ones first. A record's parent comes before the record.
  // Truncates each file after its last whole record. REQUIRES: called once, before the other
  // functions.
  void scan(const std::function<void(uint8_t file, const Record& record)>& each);

  // The file that gets new records.
  uint8_t newer() const noexcept { return newer_; }
  // Empties the older file, which becomes the newer one. The places and records of the emptied file
  // are no longer valid. Returns false if the system cannot write.
  [[nodiscard]] bool turn();
  uint64_t max_bytes() const noexcept { return max_bytes_ / 2; }  // of one file
  uint64_t head_bytes() const noexcept;                           // of a record, without its blocks
  enum class Room : uint8_t {
    kReserved,
    kTurn,  // call turn() first: the newer file is full, or the older file was used least recently
    kNone,  // the folder cannot be used now
  };
  // Reserves room for n_bytes of records in the newer file. If the folder is full, removes the
  // least recently used files of other models.
  [[nodiscard]] Room reserve(uint64_t n_bytes);
  // Returns the files that another process has emptied. Their places and records are no longer
  // valid.
  [[nodiscard]] std::vector<uint8_t> find_emptied();
  // Appends a record and the bytes of its blocks to the newer file, and sets the record's id and
  // places. `blocks` has one element for each group, empty if the record has no block of that
  // group. Returns false if the system cannot write; the file is then unchanged. REQUIRES: the room
  // is reserved.
  [[nodiscard]] bool append(Record& record, std::span<const std::span<const std::byte>> blocks);
  // Reads a block, and marks its file as used. Returns false if the block cannot be read or is
  // damaged.
  [[nodiscard]] bool read(const Place& place, std::span<std::byte> out) const;

 private:
  struct File {
    std::string path;
    int fd = -1;
    uint64_t n_bytes = 0;  // without reserved room
    uint64_t turn = 0;     // the file with the larger number is newer
  };
  PrefixFile(const PrefixFileOptions& options, const Layout& layout);
  bool open_file(size_t i, std::chrono::steady_clock::time_point end);
  bool read_head(File& file) const;
  void empty(File& file, uint64_t turn);
  bool make_room(uint64_t n_bytes);
  void scan_file(uint8_t number, const std::function<void(const Record&)>& each);

  std::string folder_;
  uint64_t max_bytes_;  // of the folder
  std::string contents_;
  std::vector<size_t> block_bytes_;  // [groups]
  std::array<File, 2> files_;
  uint8_t newer_ = 0;
};

}  // namespace billow::kv

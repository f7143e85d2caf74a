// A folder of files that can be made again, such as packed weights. Files appear whole or not at
// all. The folder holds a limited number of bytes: the files that were not used for longest are
// removed first. Processes can share a folder. Any thread may use an object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/regular_file.h"

namespace billow {

struct CacheFolderOptions {
  std::string path;        // empty: nothing is kept
  uint64_t max_bytes = 0;  // of all files together; 0: nothing is kept
};

// 16 hexadecimal digits that name a file for what `text` says: XXH3 of it.
std::string cache_name(std::string_view text);

// Whether a tenth of the folder's disk, or 8 GiB of a large one, stays free with n_bytes more.
bool disk_has_room(const std::string& folder, uint64_t n_bytes);

class CacheFolder {
 public:
  explicit CacheFolder(CacheFolderOptions options) : options_(std::move(options)) {}

  bool is_enabled() const noexcept { return !options_.path.empty() && options_.max_bytes != 0; }

  // The file of this name, which counts as used now; nullopt if there is none that can be read.
  // `name` is a plain file name.
  std::optional<RegularFile> open(std::string_view name) const;
  // Does nothing if there is no such file.
  void remove(std::string_view name) const;

  // Whether set_checked() was called for this file since the machine started, and the file has not
  // changed since. Then its content need not be checked again: the memory of the system has it, or
  // reads it from the same disk as everything else.
  bool is_checked(std::string_view name, const RegularFile& file) const;
  void set_checked(std::string_view name, const RegularFile& file) const;

  // A new file, until commit() unknown under its name. One thread.
  class Writer {
   public:
    ~Writer();  // without commit() the bytes are removed
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // Both throw Error that names the file when the system fails.
    void write(std::span<const std::byte> bytes);
    // Replaces the file of that name. The content counts as checked.
    void commit();

   private:
    friend class CacheFolder;
    Writer(const CacheFolder& folder, std::string name, int fd);
    const CacheFolder& folder_;
    std::string name_;
    std::string path_;  // of the unfinished file
    int fd_;
    bool is_done_ = false;
  };
  // Makes room for a file of n_bytes and begins to write it. Null if the folder cannot hold the
  // file, another process writes it now, or the disk would be nearly full (disk_has_room); `why`
  // gets the reason. Throws Error when the folder cannot be written. The folder must outlive the
  // writer.
  std::unique_ptr<Writer> write(std::string_view name, uint64_t n_bytes, std::string* why) const;

  // Removes the files for which `is_useless(path)` holds, and what ended processes left unfinished.
  void clean(const std::function<bool(const std::string& path)>& is_useless) const;

 private:
  std::string path_of(std::string_view name, std::string_view suffix = {}) const;
  bool make_room(uint64_t n_bytes, std::string_view name) const;

  CacheFolderOptions options_;
};

}  // namespace billow

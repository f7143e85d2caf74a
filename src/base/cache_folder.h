// A folder of files that can be recreated, such as packed weights. A file appears only when it is
// complete. The folder has a max size, unfinished files included: the least recently used files are
// removed first. Files that a process has open or mapped stay, because their removal would free no
// space. Processes can share a folder. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/regular_file.h"

namespace billow {

struct CacheFolderOptions {
  std::string path;        // empty: disabled
  uint64_t max_bytes = 0;  // of all files together; 0: disabled
};

// Returns a file name for `text`: its XXH3 hash in 16 hexadecimal digits.
std::string cache_name(std::string_view text);

// Returns whether the folder's disk keeps enough free space with n_bytes more. Enough is a tenth of
// the disk or 8 GiB, whichever is less.
bool disk_has_room(const std::string& folder, uint64_t n_bytes);

// A finished file of a folder, and its last use in nanoseconds since 1970.
struct FolderFile {
  std::string path;
  uint64_t n_bytes = 0;
  int64_t last_use = 0;
};
// Returns the finished files of a folder, least recently used ones first.
std::vector<FolderFile> files_by_use(const std::string& folder);

// Locks a folder against other processes and threads that use this class. Waits at most 100 ms,
// because the other process may be stopped.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  explicit operator bool() const noexcept { return is_locked_; }

 private:
  int fd_ = -1;
  bool is_locked_ = false;
};

class CacheFolder {
 public:
  explicit CacheFolder(CacheFolderOptions options) : options_(std::move(options)) {}

  bool is_enabled() const noexcept { return !options_.path.empty() && options_.max_bytes != 0; }

  // Opens a file and marks it as used. Returns nullopt if no readable file has this name. `name` is
  // a plain file name. The file is in use until it is closed and no longer mapped.
  std::optional<RegularFile> open(std::string_view name) const;
  // Does nothing if there is no such file.
  void remove(std::string_view name) const;

  // Returns whether set_checked() was called for this file since the machine booted and the file
  // has not changed since. If so, its content need no second check: it comes from the system's page
  // cache or from the same disk as everything else.
  bool is_checked(std::string_view name, const RegularFile& file) const;
  void set_checked(std::string_view name, const RegularFile& file) const;

  // Writes a new file, which has its name only after commit(). One thread.
  class Writer {
   public:
    ~Writer();  // without commit(), removes the bytes
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // write() and commit() throw Error that names the file if the system fails.
    void write(std::span<const std::byte> bytes);
    // Replaces the file of this name. Marks the content as checked.
    void commit();

   private:
    friend class CacheFolder;
    Writer(const CacheFolder& folder, std::string name, int fd);
    const CacheFolder& folder_;
    std::string name_;
    std::string path_;  // of the unfinished file
    int fd_;
    uint64_t n_bytes_ = 0;  // written
    bool is_done_ = false;
  };
  // Makes room for a file of at most n_bytes and opens a writer for it. The room is reserved: other
  // writers count it. Returns null, with the reason in `why`, in four cases. The file is larger
  // than the folder's limit, another process writes it, files in use leave no room, or the disk
  // would be nearly full (disk_has_room). Throws Error if the folder cannot be written. The folder
  // must outlive the writer.
  std::unique_ptr<Writer> write(std::string_view name, uint64_t n_bytes, std::string* why) const;

  // Removes the files for which `is_useless(path)` is true, and the unfinished files of ended
  // processes.
  void clean(const std::function<bool(const std::string& path)>& is_useless) const;

 private:
  std::string path_of(std::string_view name, std::string_view suffix = {}) const;
  bool make_room(uint64_t n_bytes, const std::string& own) const;

  CacheFolderOptions options_;
};

}  // namespace billow

// File-system functions of the store: read small files, list, create and flush folders.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace billow::store {

using Time = std::chrono::sys_time<std::chrono::nanoseconds>;

struct FileStatus {
  uint64_t size_bytes = 0;
  uint64_t disk_bytes = 0;  // less than the size if the file has holes
  Time modified;            // the content
  Time changed;             // the content, the name, the owner or the permissions
};

// Returns the status of a regular file and follows links. Returns nullopt if there is no such file
// or its status cannot be read.
std::optional<FileStatus> file_status(const std::string& path);
// Returns the status of the file or link itself. Returns nullopt for folders and missing entries.
std::optional<FileStatus> entry_status(const std::string& path);

struct FileContent {
  std::string bytes;
  FileStatus status;
};
// Reads a file; returns nullopt if it does not exist. Throws Error if the file cannot be read, is
// not a regular file, or has more than `max_bytes` (kTooLarge).
std::optional<FileContent> read_file(const std::string& path, uint64_t max_bytes);

// Returns the names in a folder, sorted. Returns no names if the folder is missing or cannot be
// read.
std::vector<std::string> children(const std::string& folder);
struct Child {
  std::string name;
  bool is_folder = false;  // follows links
};
// Like children(), but with the kind of each entry. On common file systems, the folder itself has
// the kinds, so no entry is opened. Adds an existing folder that cannot be read to `unreadable`,
// if given.
std::vector<Child> typed_children(const std::string& folder,
                                  std::vector<std::string>* unreadable = nullptr);
bool is_folder(const std::string& path);
// Return an errno value if a folder cannot be listed, or if files in the folder cannot be created
// or removed. Return 0 if this is possible.
int why_not_listed(const std::string& folder);
int why_not_writable(const std::string& folder);
// Locks an unfinished file that no gguf::AtomicFile writes, in any process. While the lock is held,
// no writer can take over the file, so it can be removed.
class UnwrittenFile {
 public:
  explicit UnwrittenFile(const std::string& path);
  ~UnwrittenFile();
  UnwrittenFile(const UnwrittenFile&) = delete;
  UnwrittenFile& operator=(const UnwrittenFile&) = delete;
  // Returns false if a writer has the file locked.
  explicit operator bool() const noexcept { return !is_written_; }

 private:
  int fd_ = -1;
  bool is_written_ = false;
};

// Creates one folder and flushes its parent folder. Throws Error if the folder cannot be created.
// Does nothing if the folder exists.
void make_folder(const std::string& folder);
// Flushes renames and removals in a folder to the disk, if the file system can do this.
void flush_folder(const std::string& folder) noexcept;

}  // namespace billow::store

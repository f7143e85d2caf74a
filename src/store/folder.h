// The few things that a store asks of the file system: small files read whole, children listed,
// folders made and flushed. Owns nothing; any thread.
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
  Time modified;
};

// Of a regular file, links followed; nullopt where there is none, for whatever reason.
std::optional<FileStatus> file_status(const std::string& path);
// Of what bears the name itself, be it a file or a link; nullopt for folders and what is not there.
std::optional<FileStatus> entry_status(const std::string& path);

struct FileContent {
  std::string bytes;
  FileStatus status;
};
// nullopt when there is no such file. Throws Error for one that cannot be read, is not a regular
// file, or has more than `max_bytes` (kTooLarge).
std::optional<FileContent> read_file(const std::string& path, uint64_t max_bytes);

// The names in a folder, sorted; empty where there is none, or it cannot be read.
std::vector<std::string> children(const std::string& folder);
struct Child {
  std::string name;
  bool is_folder = false;  // links followed
};
// The same with their kinds, which the folder itself tells on common file systems: nothing in it is
// touched. A folder that is there and cannot be read is added to `unreadable`, where given.
std::vector<Child> typed_children(const std::string& folder,
                                  std::vector<std::string>* unreadable = nullptr);
bool is_folder(const std::string& path);
// Why a folder cannot be listed, or no file be made and removed in it, as an errno value; 0: it
// can.
int why_not_listed(const std::string& folder);
int why_not_writable(const std::string& folder);
// Holds a file that no gguf::AtomicFile writes, in whatever process. While it is held no writer
// takes the file for its own, so it can be removed.
class UnwrittenFile {
 public:
  explicit UnwrittenFile(const std::string& path);
  ~UnwrittenFile();
  UnwrittenFile(const UnwrittenFile&) = delete;
  UnwrittenFile& operator=(const UnwrittenFile&) = delete;
  // False: somebody writes it.
  explicit operator bool() const noexcept { return !is_written_; }

 private:
  int fd_ = -1;
  bool is_written_ = false;
};

// Makes one folder, and flushes the one that it lies in. Throws Error; one that is there is fine.
void make_folder(const std::string& folder);
// Puts on the disk what was renamed or removed in a folder, where the file system can.
void flush_folder(const std::string& folder) noexcept;

}  // namespace billow::store

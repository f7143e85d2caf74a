// A file that appears whole or not at all: written beside its path, flushed to the disk, then
// renamed. Owns the descriptor and, until commit(), the temporary file. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace billow::gguf {

struct AtomicFileOptions {
  // Where the temporary file lies, on the file system of the path; empty: in the path's folder. Its
  // name is that of the path with ".partial-" and a number.
  std::string staging_folder;
  // Called before each step that changes something on the disk; what it throws ends the write.
  std::function<void(std::string_view step)> before_step;
};

class AtomicFile {
 public:
  // Creates the temporary file. All functions throw Error when the system fails.
  explicit AtomicFile(const std::string& path, AtomicFileOptions options = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Without commit() the temporary file is removed and `path` is as it was.
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  // Where commit() puts it instead: for a name that follows from the content. On the same file
  // system.
  void set_path(const std::string& path) { path_ = path; }
  void commit();

 private:
  void begin(std::string_view step) const;

  std::string path_;
  AtomicFileOptions options_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace billow::gguf

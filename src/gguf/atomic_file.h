// Writes a file that appears completely or not at all: writes a temporary file, flushes it to the
// disk and renames it. Owns the descriptor and, until commit(), the temporary file. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace billow::gguf {

struct AtomicFileOptions {
  // Folder of the temporary file, on the same file system as the path. Empty: the path's folder.
  // The temporary name is the path's name with ".partial-" and a number.
  std::string staging_folder;
  // Called before each step that changes the disk. If it throws, the write ends with that error.
  std::function<void(std::string_view step)> before_step;
};

// Throws Error (kInvalidInput) if `path` is a folder, a device or a pipe: a rename would replace
// it.
void check_replaceable(const std::string& path);

class AtomicFile {
 public:
  // Creates the temporary file. Throws the Error of check_replaceable(). All functions throw Error
  // if the system fails.
  explicit AtomicFile(const std::string& path, AtomicFileOptions options = {});
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Without commit(), removes the temporary file and leaves `path` unchanged.
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  // Changes the path for commit(), for a name that depends on the content. REQUIRES: the new path
  // is on the same file system.
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

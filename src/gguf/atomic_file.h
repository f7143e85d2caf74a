// A file that appears whole or not at all: written beside its path, flushed to the disk, then
// renamed. Owns the descriptor and, until commit(), the temporary file. One thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace billow::gguf {

class AtomicFile {
 public:
  // Creates the temporary file in the folder of `path`. All functions throw Error when the system
  // fails.
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Without commit() the temporary file is removed and `path` is as it was.
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace billow::gguf

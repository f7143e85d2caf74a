// A regular file, open for reading. Opening and reading never wait for another program, because
// pipes and devices are rejected. Owns the descriptor; move-only. Any thread may read.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace billow {

class RegularFile {
 public:
  // Throws Error that names the path if the file cannot be opened (kNotFound, kPermissionDenied,
  // kIo). The same if it is not a regular file (kInvalidInput).
  explicit RegularFile(const std::string& path);
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  const std::string& path() const noexcept { return path_; }
  int fd() const noexcept { return fd_; }
  // The status when the file was opened.
  const struct stat& status() const noexcept { return status_; }
  uint64_t size_bytes() const noexcept {
    return status_.st_size > 0 ? static_cast<uint64_t>(status_.st_size) : 0;
  }

  // Fills `bytes` from `offset` on and returns the number of bytes read. It is smaller only at the
  // end of the file. Throws Error (kIo) if the system cannot read.
  size_t read_at(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  struct stat status_{};
};

}  // namespace billow

// A whole file mapped read-only. Owns the mapping; move-only. Any thread may read the bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace billow {

class MappedFile {
 public:
  // Throws Error that names the path if the file is missing, unreadable, empty or not a regular
  // file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  const std::string& path() const noexcept { return path_; }
  // One line: path, size, inode and modification time when the file was opened.
  const std::string& version() const noexcept { return version_; }
  // Releases the memory of whole pages within `part`, if `part` is in this file. Later reads of
  // these pages load the same bytes from the file.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  std::string path_;
  std::string version_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace billow

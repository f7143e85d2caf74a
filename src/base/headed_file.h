// Some bytes of memory, and after them a whole file, mapped read-only, at adjacent addresses. So a
// file can be read as if it had another head, without a copy of its data. Owns both. Any thread may
// read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace billow {

class HeadedFile {
 public:
  // Returns where the file begins if there are head_bytes before it: the next whole page.
  static size_t file_offset(size_t head_bytes) noexcept;

  // Reserves file_offset(head_bytes) bytes, which are 0, and maps the file after them. Throws Error
  // that names the path if the file is missing, unreadable, empty or not a regular file, or if
  // there is no memory.
  HeadedFile(size_t head_bytes, const std::string& path);
  HeadedFile(HeadedFile&& other) noexcept;
  HeadedFile& operator=(HeadedFile&& other) noexcept;
  ~HeadedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, n_head_ + n_file_}; }
  // The bytes before the file, for the caller to fill in.
  std::span<std::byte> head() noexcept { return {data_, n_head_}; }
  // Releases the memory of whole pages within `part`, if `part` is in the mapped file. Later reads
  // load the same bytes from the file. The head stays.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  std::byte* data_ = nullptr;
  size_t n_head_ = 0;  // whole pages
  size_t n_file_ = 0;
};

}  // namespace billow

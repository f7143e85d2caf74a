// Reserves a range of addresses and allocates its memory piece by piece, so that data never moves.
// A page can be read or written only after hold(). With vm.overcommit_memory=2, the system counts
// only held pages. Owns the range. One thread at a time may call these functions. Any thread may
// read and write held bytes.
#pragma once

#include <cstddef>

namespace billow {

class AddressSpace {
 public:
  // Alignment of the range. The system uses huge pages for the range if it has them.
  static constexpr size_t kHugePage = size_t{2} << 20;

  AddressSpace() = default;
  // Reserves n_bytes, rounded up to whole huge pages. Throws Error (kOutOfMemory) if the system has
  // no such range. `what` names the use in the error message.
  AddressSpace(size_t n_bytes, const char* what);
  ~AddressSpace();
  AddressSpace(AddressSpace&& other) noexcept;
  AddressSpace& operator=(AddressSpace&& other) noexcept;

  std::byte* data() const noexcept { return base_; }  // null if there is no range
  size_t size() const noexcept { return size_; }

  // Makes [begin, end) readable and writable. Both offsets must be multiples of a small page. New
  // memory is 0. Returns false and changes nothing if the system refuses. Has no effect on pages
  // that are already held.
  [[nodiscard]] bool hold(size_t begin, size_t end) noexcept;
  // Maps the first n_bytes of a file read-only at the start of the range, until give_back().
  // Returns false and changes nothing if the system refuses. REQUIRES: n_bytes <= size().
  [[nodiscard]] bool show_file(int fd, size_t n_bytes) noexcept;
  // Undoes hold() and show_file(): frees the memory and the system's commitment to provide it.
  void give_back(size_t begin, size_t end) noexcept;

 private:
  std::byte* mapped_ = nullptr;
  size_t n_mapped_ = 0;
  std::byte* base_ = nullptr;  // the first huge page of the mapping
  size_t size_ = 0;
};

}  // namespace billow

// A range of addresses whose memory is asked for piece by piece, so that pieces never move. Nothing
// in it can be touched before hold(), and systems that promise no more memory than they have
// (vm.overcommit_memory=2) count what is held alone. Owns the range. One thread at a time, but the
// bytes that are held may be read and written by any.
#pragma once

#include <cstddef>

namespace billow {

class AddressSpace {
 public:
  // Ranges begin at a multiple of this, and are backed by huge pages where the system has them.
  static constexpr size_t kHugePage = size_t{2} << 20;

  AddressSpace() = default;
  // Room for n_bytes, in whole huge pages. Throws Error (kOutOfMemory) when the addresses cannot be
  // had; `what` names what they are for.
  AddressSpace(size_t n_bytes, const char* what);
  ~AddressSpace();
  AddressSpace(AddressSpace&& other) noexcept;
  AddressSpace& operator=(AddressSpace&& other) noexcept;

  std::byte* data() const noexcept { return base_; }  // null: there is no range
  size_t size() const noexcept { return size_; }

  // Lets [begin, end), offsets at whole small pages, be read and written. What was never written is
  // 0. False, and nothing has changed, when the system refuses. Holding what is held changes
  // nothing.
  [[nodiscard]] bool hold(size_t begin, size_t end) noexcept;
  // Shows the first n_bytes of a file at the beginning of the range, read-only, until give_back().
  // False, and nothing has changed, when the system refuses. REQUIRES: n_bytes <= size().
  [[nodiscard]] bool show_file(int fd, size_t n_bytes) noexcept;
  // The opposite of both: the memory goes back to the system, and so does the promise of it.
  void give_back(size_t begin, size_t end) noexcept;

 private:
  std::byte* mapped_ = nullptr;
  size_t n_mapped_ = 0;
  std::byte* base_ = nullptr;  // the first huge page of the mapping
  size_t size_ = 0;
};

}  // namespace billow

#include "base/address_space.h"

#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace billow {
namespace {

constexpr int kNothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// Requests huge pages. A system without them uses small pages.
void ask_for_huge_pages(void* data, size_t n_bytes) {
  if (n_bytes != 0) ::madvise(data, n_bytes, MADV_HUGEPAGE);
}

}  // namespace

AddressSpace::AddressSpace(size_t n_bytes, const char* what) {
  const bool fits = n_bytes <= std::numeric_limits<size_t>::max() / 2;
  size_ = fits ? (n_bytes + kHugePage - 1) / kHugePage * kHugePage : 0;
  n_mapped_ = size_ + kHugePage;
  void* mapped = fits ? ::mmap(nullptr, n_mapped_, PROT_NONE, kNothing, -1, 0) : MAP_FAILED;
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory, "no address space for " + std::to_string(n_bytes) +
                                             " bytes of " + what +
                                             "; raise the limit or reserve less");
  }
  mapped_ = static_cast<std::byte*>(mapped);
  const size_t past = reinterpret_cast<uintptr_t>(mapped_) % kHugePage;
  base_ = mapped_ + (kHugePage - past) % kHugePage;
  ask_for_huge_pages(base_, size_);
}

AddressSpace::~AddressSpace() {
  if (mapped_ != nullptr) ::munmap(mapped_, n_mapped_);
}

AddressSpace::AddressSpace(AddressSpace&& other) noexcept { *this = std::move(other); }

AddressSpace& AddressSpace::operator=(AddressSpace&& other) noexcept {
  std::swap(mapped_, other.mapped_);
  std::swap(n_mapped_, other.n_mapped_);
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  return *this;
}

bool AddressSpace::hold(size_t begin, size_t end) noexcept {
  return begin >= end || ::mprotect(base_ + begin, end - begin, PROT_READ | PROT_WRITE) == 0;
}

// With this advice, the system also maps the huge pages of its file cache as huge pages.
bool AddressSpace::show_file(int fd, size_t n_bytes) noexcept {
  if (n_bytes == 0) return true;
  void* shown = ::mmap(base_, n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (shown != MAP_FAILED) ask_for_huge_pages(base_, n_bytes);
  return shown != MAP_FAILED;
}

// Replaces the mapping, because removing only the access rights would keep the memory commitment.
void AddressSpace::give_back(size_t begin, size_t end) noexcept {
  if (begin >= end) return;
  void* fresh = ::mmap(base_ + begin, end - begin, PROT_NONE, kNothing | MAP_FIXED, -1, 0);
  if (fresh != MAP_FAILED) return ask_for_huge_pages(base_ + begin, end - begin);
  ::madvise(base_ + begin, end - begin, MADV_DONTNEED);  // too many mappings: the range stays held
}

}  // namespace billow

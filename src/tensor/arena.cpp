#include "tensor/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::tensor {
namespace {

// Address space, so that pieces never move and no pass leaves a gap; more than any pass needs.
constexpr size_t kMostBytes = size_t{64} << 30;

constexpr size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

[[noreturn]] void refuse(size_t n_bytes) {
  throw Error(ErrorCode::kOutOfMemory,
              "no memory for " + std::to_string(n_bytes) +
                  " bytes of scratch; close other programs or use a smaller model");
}

}  // namespace

Arena::~Arena() {
  if (mapped_ != nullptr) ::munmap(mapped_, kMostBytes + kPage);
}

void Arena::map() {
  void* mapped = ::mmap(nullptr, kMostBytes + kPage, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    throw Error(ErrorCode::kOutOfMemory, "no address space for scratch; raise its limit");
  mapped_ = static_cast<std::byte*>(mapped);
  base_ = mapped_ + (kPage - reinterpret_cast<uintptr_t>(mapped_) % kPage) % kPage;
  // Huge pages, because outputs of a product are written down the columns of a matrix, each row on
  // another page. Where there are none, small ones serve.
  ::madvise(base_, kMostBytes, MADV_HUGEPAGE);
}

// Makes the first n_bytes, whole pages, usable. Systems that promise no more memory than they have
// count it from then on.
void Arena::hold(size_t n_bytes) {
  if (base_ == nullptr) map();
  if (::mprotect(base_ + n_held_, n_bytes - n_held_, PROT_READ | PROT_WRITE) != 0) refuse(n_bytes);
  n_held_ = n_bytes;
}

std::byte* Arena::bytes(size_t n_bytes) {
  if (n_bytes > kMostBytes - used_) refuse(n_bytes);
  const size_t end = used_ + rounded_up(n_bytes, kAlignment);
  BILLOW_CHECK(!lent_ || end <= n_held_);
  if (end > n_held_ || base_ == nullptr) hold(std::max(kPage, rounded_up(end, kPage)));
  std::byte* handed_out = base_ + used_;
  used_ = end;
  return handed_out;
}

void Arena::trim() noexcept {
  BILLOW_CHECK(!lent_);
  if (n_held_ != 0) ::madvise(base_, n_held_, MADV_DONTNEED);
  used_ = 0;
  n_held_ = 0;
}

}  // namespace billow::tensor

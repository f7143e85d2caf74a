#include "tensor/arena.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::tensor {
namespace {

// Size of the reserved address space: more than any pass needs. The arena grows in place, so pieces
// never move.
constexpr size_t kMaxBytes = size_t{64} << 30;

constexpr size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

[[noreturn]] void refuse(size_t n_bytes) {
  throw Error(ErrorCode::kOutOfMemory,
              "no memory for " + std::to_string(n_bytes) +
                  " bytes of scratch memory; close other programs or use a smaller model");
}

}  // namespace

// Makes the first n_bytes, which are whole pages, usable.
void Arena::hold(size_t n_bytes) {
  if (counting_) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that is never used, and not null
    base_ = reinterpret_cast<std::byte*>(uintptr_t{kPage});
    n_held_ = n_bytes;
    return;
  }
  if (base_ == nullptr) {
    space_ = AddressSpace(kMaxBytes, "scratch");
    base_ = space_.data();
  }
  if (!space_.hold(n_held_, n_bytes)) refuse(n_bytes);
  n_held_ = n_bytes;
}

std::byte* Arena::bytes(size_t n_bytes) {
  if (n_bytes > kMaxBytes - used_) refuse(n_bytes);
  const size_t end = used_ + rounded_up(n_bytes, kAlignment);
  BILLOW_CHECK(!lent_ || end <= n_held_);
  if (end > n_held_ || base_ == nullptr) hold(std::max(kPage, rounded_up(end, kPage)));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a counting arena has no array to point into
  auto* handed_out = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(base_) + used_);
  used_ = end;
  return handed_out;
}

void Arena::trim() noexcept {
  BILLOW_CHECK(!lent_);
  if (n_held_ != 0) space_.give_back(0, n_held_);
  used_ = 0;
  n_held_ = 0;
}

}  // namespace billow::tensor

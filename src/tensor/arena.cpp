#include "tensor/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace billow::tensor {
namespace {

constexpr size_t kAlignment = 64;
// Chunks are whole huge pages: outputs of a product are written down the columns of a matrix, each
// row on another page.
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void Arena::Free::operator()(std::byte* p) const noexcept { std::free(p); }

std::byte* Arena::bytes(size_t n_bytes) {
  const size_t n = (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
  // A chunk that is too small for this request is passed over until the next release.
  while (at_.chunk < chunks_.size() && chunks_[at_.chunk].n_bytes - at_.used < n)
    at_ = {at_.chunk + 1, 0};
  if (at_.chunk == chunks_.size()) {
    const size_t wanted = (n + kHugePage - 1) / kHugePage * kHugePage;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(kHugePage, wanted));
    if (data == nullptr) {
      throw Error(ErrorCode::kOutOfMemory,
                  "no memory for " + std::to_string(wanted) + " bytes of scratch");
    }
    ::madvise(data, wanted, MADV_HUGEPAGE);  // where there are none, small ones serve
    chunks_.push_back({std::unique_ptr<std::byte, Free>(data), wanted});
  }
  std::byte* handed_out = chunks_[at_.chunk].data.get() + at_.used;
  at_.used += n;
  return handed_out;
}

void Arena::trim() noexcept {
  chunks_.clear();
  at_ = {};
}

size_t Arena::n_bytes() const noexcept {
  size_t sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk.n_bytes;
  return sum;
}

}  // namespace billow::tensor

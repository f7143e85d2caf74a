#include "base/heap.h"

#include <malloc.h>

#include <algorithm>
#include <climits>

namespace billow {

void settle_heap([[maybe_unused]] size_t n_arenas) noexcept {
#ifdef __GLIBC__
  constexpr int kMappedBytes = 256 << 10;
  constexpr int kKeptBytes = 1 << 20;  // max free memory at the end of a heap
  ::mallopt(M_ARENA_MAX,
            static_cast<int>(std::min<size_t>(std::max<size_t>(1, n_arenas), INT_MAX)));
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#endif
}

void trim_heap() noexcept {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace billow

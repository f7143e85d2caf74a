// Controls when the process returns freed memory to the system.
#pragma once

#include <cstddef>

namespace billow {

// Configures glibc's allocator so that freed memory returns to the system. For a process that runs
// for months and has large requests. All threads share at most n_arenas heaps. By default, glibc
// creates up to eight heaps per core. Each heap keeps the memory of its peak. Large blocks always
// get their own mapping. By default, glibc stops mapping blocks of a size that was freed once. Call
// this before other threads start. Other C libraries than glibc are not changed.
void settle_heap(size_t n_arenas) noexcept;

// Returns free whole pages between used blocks to the system. Takes less than a millisecond per 10
// MiB; other threads that allocate wait meanwhile. Call this now and then, from any thread.
void trim_heap() noexcept;

}  // namespace billow

// How the process keeps memory that it has freed.
#pragma once

#include <cstddef>

namespace billow {

// For a process that runs for months and whose requests may be large: memory that was needed once
// goes back to the system. At most n_arenas heaps are shared by all threads (glibc would make eight
// for each core, each of which keeps what its largest moment took), and large blocks are always
// mapped on their own (glibc would stop that for sizes that were freed once). To be called before
// other threads begin. Other C libraries than glibc are left as they are.
void settle_heap(size_t n_arenas) noexcept;

// Gives whole pages back that are free among blocks in use. Takes less than a millisecond for each
// ten MiB; others that allocate wait meanwhile. To be called now and then, from any thread.
void trim_heap() noexcept;

}  // namespace billow

#include "engine/batcher.h"

#include <algorithm>

namespace billow::engine {

std::vector<ScheduledChunk> plan_batch(std::span<const size_t> n_pending, const BatchLimits& limits,
                                       size_t first) {
  std::vector<ScheduledChunk> chunks;
  size_t room = limits.n_rows;
  const size_t n = n_pending.size();
  for (const bool writing : {true, false}) {
    if (!writing) room = std::min(room, limits.n_read_rows);
    for (size_t i = 0; i < n && room > 0; ++i) {
      const size_t sequence = (first + i) % n;
      if (n_pending[sequence] == 0 || (n_pending[sequence] <= kMaxWritten) != writing) continue;
      chunks.push_back({sequence, std::min(room, n_pending[sequence])});
      room -= chunks.back().n_rows;
    }
  }
  return chunks;
}

}  // namespace billow::engine

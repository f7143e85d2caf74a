#include "engine/batcher.h"

#include <algorithm>

namespace billow::engine {

namespace {

enum class Part : uint8_t { kWriting, kPrompt, kBulkPrompt };

Part part_of(const Pending& pending) {
  if (pending.n_rows <= kMaxWritten) return Part::kWriting;
  return pending.is_bulk ? Part::kBulkPrompt : Part::kPrompt;
}

}  // namespace

std::vector<ScheduledChunk> plan_batch(std::span<const Pending> pending, const BatchLimits& limits,
                                       size_t first) {
  std::vector<ScheduledChunk> chunks;
  size_t room = limits.n_rows;
  const size_t n = pending.size();
  for (const Part part : {Part::kWriting, Part::kPrompt, Part::kBulkPrompt}) {
    if (part == Part::kPrompt) room = std::min(room, limits.n_read_rows);
    for (size_t i = 0; i < n && room > 0; ++i) {
      const size_t sequence = (first + i) % n;
      if (pending[sequence].n_rows == 0 || part_of(pending[sequence]) != part) continue;
      chunks.push_back({sequence, std::min(room, pending[sequence].n_rows)});
      room -= chunks.back().n_rows;
    }
  }
  return chunks;
}

}  // namespace billow::engine

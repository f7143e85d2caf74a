#include "kv/state_blocks.h"

#include <algorithm>

#include "kv/layout.h"

namespace billow::kv {

bool keeps_state(size_t block, size_t n_positions, size_t stride, const TextMarks& marks) {
  const size_t n_blocks = block + 1;
  if (n_blocks * kBlockPositions > n_positions) return false;
  if (n_blocks % stride == 0 || n_blocks == marks.junction) return true;
  // If the same text comes again, it resumes after a block that leaves at least one token to
  // evaluate.
  return marks.ends && n_blocks >= (n_positions - 1) / kBlockPositions;
}

std::vector<size_t> written_states(size_t begin, size_t end, size_t stride, size_t n_kept,
                                   const TextMarks& marks) {
  const size_t last = (end - 1) / kBlockPositions;
  std::vector<size_t> blocks = {last};
  for (size_t block = last; block > begin / kBlockPositions && blocks.size() <= n_kept; --block)
    if (keeps_state(block - 1, end, stride, marks)) blocks.push_back(block - 1);
  std::ranges::reverse(blocks);
  return blocks;
}

}  // namespace billow::kv

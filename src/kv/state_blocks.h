// Decides which blocks of a group of states exist: pure planning. A state cannot be truncated. A
// prompt that shares a prefix with an earlier text resumes only at a kept state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::kv {

// Facts about a text while it is evaluated.
struct TextMarks {
  // Number of blocks that the text shares with an earlier text, if that is more than the last kept
  // state covers. A pass ends after these blocks, and the state there is kept for the next text
  // with this prefix. 0: none.
  size_t junction = 0;
  // The text ends here: the end of a prompt or of an answer. The next text likely continues here.
  bool ends = false;
  // Long texts may have other keys and values than short ones with the same tokens.
  bool is_long = false;
  // The number of the adapter that evaluates the text; 0: the model alone. Texts of different
  // adapters have different keys and values.
  uint64_t adapter = 0;
  // Texts of different salts share nothing. 0: no salt. At most kMaxSalt.
  uint64_t salt = 0;
};
inline constexpr uint64_t kMaxSalt = UINT64_MAX >> 1;

// Returns whether the state after `block` is kept. The text has n_positions evaluated positions.
bool keeps_state(size_t block, size_t n_positions, size_t stride, const TextMarks& marks);

// Returns the blocks that a pass over positions [begin, end) writes states to, in ascending order:
// the block of position end - 1, and of the blocks before it for which keeps_state() is true, the
// last n_kept at most. REQUIRES: begin < end.
std::vector<size_t> written_states(size_t begin, size_t end, size_t stride, size_t n_kept,
                                   const TextMarks& marks);

}  // namespace billow::kv

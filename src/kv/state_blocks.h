// Which blocks of a group of states are there: pure planning. A state cannot be truncated. A prompt
// that shares a prefix with an earlier text resumes only where a state was kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::kv {

// What is known of a text while it is evaluated.
struct TextMarks {
  // Blocks that it has in common with an earlier text beyond the last state that was kept: a pass
  // ends behind them, and the state there is kept for the next text that begins so. 0: none.
  size_t junction = 0;
  // The text ends here: a prompt or an answer does. The next text likely continues there.
  bool ends = false;
  // Long texts may have other keys and values than short ones with the same tokens.
  bool is_long = false;
  // The number of the adapter that the text is evaluated with; 0: the model alone. Texts of
  // different adapters have different keys and values.
  uint64_t adapter = 0;
};

// Whether the state behind `block` is kept. The text has n_positions evaluated.
bool keeps_state(size_t block, size_t n_positions, size_t stride, const TextMarks& marks);

// The blocks that a pass over positions [begin, end) writes states to, rising: the one of position
// end - 1, and at most n_kept of those that keeps_state() names, the later ones first.
// REQUIRES: begin < end.
std::vector<size_t> written_states(size_t begin, size_t end, size_t stride, size_t n_kept,
                                   const TextMarks& marks);

}  // namespace billow::kv

// ALiBi (Press et al., arXiv 2108.12409): the penalty of a score for each position of distance.
#pragma once

#include <cstddef>
#include <vector>

namespace billow::arch {

// Returns the slopes of n_heads heads. The first heads, up to a power of two, have a geometric
// sequence. The others have every second member of a sequence of twice that length.
std::vector<float> alibi_slopes(size_t n_heads, float max_bias);

}  // namespace billow::arch

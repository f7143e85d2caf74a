// ALiBi (Press et al., arXiv 2108.12409): what is taken off a score for each position of distance.
#pragma once

#include <cstddef>
#include <vector>

namespace billow::arch {

// Of n_heads heads: a geometric sequence over the next lower power of two of heads, and every
// second member of one twice as long for the rest.
std::vector<float> alibi_slopes(size_t n_heads, float max_bias);

}  // namespace billow::arch

// How many drafted tokens a pass should compare. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/speculation/pass_cost.h"

namespace billow::engine {

// What a pass has without drafts.
struct DraftRoom {
  size_t n_rows = 0;     // of all sequences
  size_t n_writing = 0;  // tokens that it will give: one for each sequence whose rows are complete
  size_t max_rows = 0;   // that drafts may add
  // Where some, but not all of a draft is accepted, the accepted tokens are evaluated again by the
  // next pass: of models with states, which cannot be cut back.
  bool evaluates_again = false;
};

// Returns how many drafted tokens of each sequence the pass compares. The plan maximizes the
// expected tokens per second of the pass, with what the next pass evaluates again. `chances`: for
// each sequence, the probability that a drafted token and all before it are accepted; falling.
std::vector<size_t> plan_drafts(std::span<const std::span<const double>> chances,
                                const DraftRoom& room, const PassCost& cost);

}  // namespace billow::engine

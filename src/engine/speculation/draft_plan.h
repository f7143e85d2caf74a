// Plans how many drafted tokens a pass compares. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/speculation/pass_cost.h"

namespace billow::engine {

// A pass without drafts.
struct DraftRoom {
  size_t n_rows = 0;     // of all sequences
  size_t n_writing = 0;  // new tokens of the pass: one for each sequence whose rows are complete
  size_t max_rows = 0;   // max rows for drafts
  // True for models with states, which cannot be truncated. If only a part of a draft is accepted,
  // the next pass evaluates the accepted tokens again.
  bool evaluates_again = false;
};

// Returns how many drafted tokens of each sequence the pass compares. The plan maximizes the
// expected tokens per second of the pass, including the tokens that the next pass evaluates again.
// `chances`: for each sequence, the probability that a drafted token and all before it are
// accepted; descending.
std::vector<size_t> plan_drafts(std::span<const std::span<const double>> chances,
                                const DraftRoom& room, const PassCost& cost);

}  // namespace billow::engine

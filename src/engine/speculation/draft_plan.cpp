#include "engine/speculation/draft_plan.h"

#include <algorithm>
#include <utility>

namespace billow::engine {
namespace {

// A plan must promise this much more than none: guesses are not worth a loss.
constexpr double kMinGain = 1.02;

struct Candidate {
  double chance = 0.0;
  size_t sequence = 0;
  size_t position = 0;  // in the sequence's draft
};

// The likeliest first; the tokens of a sequence stay in their order.
bool goes_before(const Candidate& a, const Candidate& b) noexcept {
  if (a.chance != b.chance) return a.chance > b.chance;
  return std::pair(a.sequence, a.position) < std::pair(b.sequence, b.position);
}

}  // namespace

std::vector<size_t> plan_drafts(std::span<const std::span<const double>> chances,
                                const DraftRoom& room, const PassCost& cost) {
  std::vector<size_t> lengths(chances.size(), 0);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < chances.size(); ++i)
    for (size_t k = 0; k < chances[i].size(); ++k) candidates.push_back({chances[i][k], i, k});
  std::ranges::sort(candidates, goes_before);
  const auto n_base = static_cast<double>(room.n_writing);
  double gained = 0.0;
  double best = kMinGain * n_base / cost.of(std::max<size_t>(1, room.n_rows));
  size_t n_best = 0;
  for (size_t n = 1; n <= std::min(candidates.size(), room.max_rows); ++n) {
    gained += candidates[n - 1].chance;
    const double rate = (n_base + gained) / cost.of(room.n_rows + n);
    if (rate <= best) continue;
    best = rate;
    n_best = n;
  }
  for (size_t n = 0; n < n_best; ++n) ++lengths[candidates[n].sequence];
  return lengths;
}

}  // namespace billow::engine

#include "engine/speculation/draft_plan.h"

#include <algorithm>

namespace billow::engine {
namespace {

// A plan must promise this much more than none: guesses are not worth a loss.
constexpr double kMinGain = 1.02;

struct Candidate {
  double chance = 0.0;
  size_t sequence = 0;
};

}  // namespace

std::vector<size_t> plan_drafts(std::span<const std::span<const double>> chances,
                                const DraftRoom& room, const PassCost& cost) {
  std::vector<size_t> lengths(chances.size(), 0);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < chances.size(); ++i)
    for (const double chance : chances[i]) candidates.push_back({chance, i});
  // Stable: as chances fall within a sequence, its tokens stay in their order.
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::chance);
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

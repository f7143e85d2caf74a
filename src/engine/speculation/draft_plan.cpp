#include "engine/speculation/draft_plan.h"

#include <algorithm>
#include <utility>

namespace billow::engine {
namespace {

// Min gain of a plan over no drafts, because guesses are not worth a loss.
constexpr double kMinGain = 1.02;

struct Candidate {
  double chance = 0.0;
  size_t sequence = 0;
  size_t position = 0;  // in the sequence's draft
};

// Returns the expected number of accepted tokens that are evaluated again. That happens if only a
// part of a draft with these chances is accepted.
double expected_again(std::span<const double> chances) noexcept {
  if (chances.empty()) return 0.0;
  double sum = 0.0;
  for (const double chance : chances) sum += chance;
  return sum - static_cast<double>(chances.size()) * chances.back();
}

// The likeliest first; the tokens of a sequence keep their order.
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
  const double base_cost = cost.of(std::max<size_t>(1, room.n_rows));
  double gained = 0.0;
  double n_again = 0.0;  // rows that are evaluated again
  double best = kMinGain * n_base / base_cost;
  std::vector<size_t> tried(chances.size(), 0);
  for (size_t n = 1; n <= std::min(candidates.size(), room.max_rows); ++n) {
    const Candidate& next = candidates[n - 1];
    const std::span<const double> draft = chances[next.sequence];
    size_t& length = tried[next.sequence];
    gained += next.chance;
    n_again += expected_again(draft.first(length + 1)) - expected_again(draft.first(length));
    ++length;
    double pass_cost = cost.of(room.n_rows + n);
    // A row that is evaluated again costs as much as a drafted one.
    if (room.evaluates_again)
      pass_cost += n_again * (pass_cost - base_cost) / static_cast<double>(n);
    const double rate = (n_base + gained) / pass_cost;
    if (rate <= best) continue;
    best = rate;
    lengths = tried;
  }
  return lengths;
}

}  // namespace billow::engine

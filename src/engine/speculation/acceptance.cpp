#include "engine/speculation/acceptance.h"

#include <algorithm>

namespace billow::engine {
namespace {

// Assumed probabilities before any comparison, and their weight in comparisons.
constexpr std::array<double, Acceptance::kGrades> kPrior = {0.35, 0.40, 0.55, 0.70, 0.80, 0.90};
constexpr double kPriorWeight = 4.0;
// The weight of a comparison halves after about 20 others of its kind.
constexpr double kKeep = 0.966;
constexpr double kFade = 0.998;
// Weights of the comparisons of all kinds together, for kinds without comparisons.
constexpr double kEaseWeight = 6.0;
constexpr double kEaseKeep = 0.985;

}  // namespace

size_t Acceptance::grade_of_match(size_t match_length) noexcept {
  if (match_length <= 1) return 0;
  if (match_length == 2) return 1;
  if (match_length <= 4) return 2;
  if (match_length <= 7) return 3;
  return match_length <= 15 ? 4 : 5;
}

size_t Acceptance::grade_of_probability(double probability) noexcept {
  constexpr std::array<double, kGrades - 1> kMinProbability = {0.3, 0.5, 0.7, 0.85, 0.95};
  return static_cast<size_t>(std::ranges::upper_bound(kMinProbability, probability) -
                             kMinProbability.begin());
}

double Acceptance::chance(DraftSource source, size_t grade) const noexcept {
  const Counts& counts = counts_[static_cast<size_t>(source)][grade];
  const double ease = (kEaseWeight + all_accepted_) / (kEaseWeight + all_assumed_);
  const double prior = std::min(kPrior[grade] * ease, kPrior.back());
  return (kPriorWeight * prior + counts.accepted) / (kPriorWeight + counts.tried);
}

void Acceptance::learn(DraftSource source, size_t grade, bool accepted) noexcept {
  Counts& counts = counts_[static_cast<size_t>(source)][grade];
  counts.accepted = counts.accepted * kKeep + (accepted ? 1.0 : 0.0);
  counts.tried = counts.tried * kKeep + 1.0;
  all_accepted_ = all_accepted_ * kEaseKeep + (accepted ? 1.0 : 0.0);
  all_assumed_ = all_assumed_ * kEaseKeep + kPrior[grade];
}

void Acceptance::fade() noexcept {
  all_accepted_ *= kFade;
  all_assumed_ *= kFade;
  for (auto& source : counts_) {
    for (Counts& counts : source) {
      counts.accepted *= kFade;
      counts.tried *= kFade;
    }
  }
}

}  // namespace billow::engine

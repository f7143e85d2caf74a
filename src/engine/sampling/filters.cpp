#include "engine/sampling/filters.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace billow::engine {
namespace {

float max_logit(std::span<const Candidate> candidates) noexcept {
  float max = candidates[0].logit;
  for (const Candidate& candidate : candidates) max = std::max(max, candidate.logit);
  return max;
}

double weight_of(float logit, double max) noexcept {
  return std::exp(static_cast<double>(logit) - max);
}

// Keeps the fewest first candidates in the order `less` for which enough(sum of weight(candidate))
// is true. If it is never true, returns false and keeps all. Sorts only the candidates that it
// visits, so a vocabulary with few likely tokens is not sorted as a whole.
template <typename Less, typename Weight, typename Enough>
bool keep_first(std::vector<Candidate>& candidates, Less less, Weight weight, Enough enough) {
  double sum = 0.0;
  size_t n_sorted = 0;
  size_t n_more = 256;
  while (n_sorted < candidates.size()) {
    const auto begin = candidates.begin() + static_cast<std::ptrdiff_t>(n_sorted);
    n_more = std::min(n_more, candidates.size() - n_sorted);
    const auto end = begin + static_cast<std::ptrdiff_t>(n_more);
    if (end != candidates.end()) std::nth_element(begin, end, candidates.end(), less);
    std::sort(begin, end, less);
    for (auto candidate = begin; candidate != end; ++candidate) {
      sum += weight(*candidate);
      if (enough(sum)) {
        candidates.erase(candidate + 1, candidates.end());
        return true;
      }
    }
    n_sorted += n_more;
    n_more *= 4;
  }
  return false;
}

}  // namespace

double total_weight(std::span<const Candidate> candidates) noexcept {
  const double max = static_cast<double>(max_logit(candidates));
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += weight_of(candidate.logit, max);
  return total;
}

bool keep_top_weight(std::vector<Candidate>& candidates, double weight) {
  const double max = static_cast<double>(max_logit(candidates));
  return keep_first(
      candidates, is_better,
      [=](const Candidate& candidate) { return weight_of(candidate.logit, max); },
      [=](double sum) { return sum >= weight; });
}

void keep_top_p(std::vector<Candidate>& candidates, float p) {
  if (p >= 1.0f) return;
  keep_top_weight(candidates, static_cast<double>(p) * total_weight(candidates));
}

void keep_typical(std::vector<Candidate>& candidates, float p) {
  if (p >= 1.0f) return;
  const double log_total =
      static_cast<double>(max_logit(candidates)) + std::log(total_weight(candidates));
  double entropy = 0.0;
  for (const Candidate& candidate : candidates) {
    const double log_p = static_cast<double>(candidate.logit) - log_total;
    entropy -= std::exp(log_p) * log_p;
  }
  const auto distance = [=](const Candidate& candidate) {
    return std::abs(log_total - static_cast<double>(candidate.logit) - entropy);
  };
  const auto nearer = [=](const Candidate& a, const Candidate& b) {
    const double to_a = distance(a);
    const double to_b = distance(b);
    return to_a != to_b ? to_a < to_b : is_better(a, b);
  };
  keep_first(
      candidates, nearer,
      [=](const Candidate& candidate) { return weight_of(candidate.logit, log_total); },
      [=](double sum) { return sum > static_cast<double>(p); });
}

void keep_min_p(std::vector<Candidate>& candidates, float p) {
  if (p <= 0.0f) return;
  const double min = static_cast<double>(max_logit(candidates)) + std::log(static_cast<double>(p));
  std::erase_if(candidates, [=](const Candidate& candidate) {
    return static_cast<double>(candidate.logit) < min;
  });
}

Drawn draw(std::span<const Candidate> candidates, float temperature, Random& random,
           std::vector<float>& weights) {
  const double max = static_cast<double>(max_logit(candidates));
  weights.clear();
  double total = 0.0;
  for (const Candidate& candidate : candidates) {
    const double exponent =
        (static_cast<double>(candidate.logit) - max) / static_cast<double>(temperature);
    weights.push_back(std::exp(static_cast<float>(std::max(exponent, -1000.0))));
    total += static_cast<double>(weights.back());
  }
  // Chooses the first candidate whose running sum exceeds the target. Its weight is never 0,
  // because the sum does not grow for weight 0. The sum repeats the additions above and ends at the
  // total. If rounding makes the target equal to the total, chooses the last candidate.
  const double target = random.uniform() * total;
  double sum = 0.0;
  size_t index = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0f) index = i;
    sum += static_cast<double>(weights[i]);
    if (sum > target) break;
  }
  return {index, static_cast<double>(weights[index]) / total};
}

}  // namespace billow::engine

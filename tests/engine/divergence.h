// Computes how much two distributions over the vocabulary differ.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace billow::engine {

inline std::vector<double> log_softmax(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<double> out;
  for (const float logit : logits)
    out.push_back(static_cast<double>(logit) - largest - std::log(sum));
  return out;
}

// KL(softmax(reference) || softmax(other)), in nats.
inline double divergence(std::span<const float> reference, std::span<const float> other) {
  const std::vector<double> p = log_softmax(reference);
  const std::vector<double> q = log_softmax(other);
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

}  // namespace billow::engine

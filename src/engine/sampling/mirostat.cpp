#include "engine/sampling/mirostat.h"

#include <algorithm>
#include <cmath>

namespace billow::engine {

Mirostat::Mirostat(const SamplingOptions& options) noexcept
    : tau_(static_cast<double>(options.mirostat_tau)),
      eta_(static_cast<double>(options.mirostat_eta)),
      mu_(2.0 * static_cast<double>(options.mirostat_tau)) {}

size_t Mirostat::top_k(std::span<const Candidate> best, float temperature,
                       int32_t n_vocab) const noexcept {
  // Least squares for s in p_i ~ 1 / i^s (the paper's section 4): t_i = ln((i + 1) / i), b_i =
  // ln(p_i / p_(i+1)). A quotient of softmax probabilities is a difference of logits.
  double sum_tb = 0.0;
  double sum_tt = 0.0;
  for (size_t i = 0; i + 1 < best.size(); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = (static_cast<double>(best[i].logit) - static_cast<double>(best[i + 1].logit)) /
                     static_cast<double>(temperature);
    sum_tb += t * b;
    sum_tt += t * t;
  }
  if (sum_tt == 0.0) return 1;
  const double s = std::max(
      sum_tb / sum_tt, 1e-6);  // 0 for equal logits would make the exponent 1 / s below infinite
  const double epsilon = s - 1.0;
  const double log_n = std::log(static_cast<double>(n_vocab));
  // ln of epsilon / (1 - N^-epsilon); its limit at epsilon = 0 is 1 / ln N.
  const double log_share = std::abs(epsilon) < 1e-6
                               ? -std::log(log_n)
                               : std::log(epsilon / -std::expm1(-epsilon * log_n));
  // k = (epsilon * 2^mu / (1 - N^-epsilon))^(1 / s), as a logarithm, which cannot overflow.
  const double log_k = (log_share + mu_ * std::log(2.0)) / s;
  if (log_k >= log_n) return static_cast<size_t>(n_vocab);
  return log_k > 0.0 ? static_cast<size_t>(std::exp(log_k)) : 1;
}

void Mirostat::observe(double probability) noexcept {
  mu_ -= eta_ * (-std::log2(probability) - tau_);
}

}  // namespace billow::engine

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::engine {
namespace {

constexpr float kNoThreshold = -std::numeric_limits<float>::infinity();
// Max scale of logits for the smallest temperatures. Differences of 1e-28 still decide, and nothing
// overflows to a NaN.
constexpr double kMaxScale = 1e30;

int64_t random_seed() {
  std::random_device device;
  const uint64_t high = device();
  const uint64_t low = device();
  return static_cast<int64_t>(((high << 32) ^ low) & ((uint64_t{1} << 53) - 1));
}

SamplingOptions checked(SamplingOptions options, int32_t n_vocab) {
  BILLOW_CHECK(n_vocab > 0);
  options.validate();
  for (const LogitBias& entry : options.logit_bias) {
    if (entry.token < n_vocab) continue;
    throw Error(ErrorCode::kInvalidInput,
                "option logit_bias names token " + std::to_string(entry.token) +
                    ", but the vocabulary has tokens from 0 to " + std::to_string(n_vocab - 1));
  }
  if (options.seed < 0) options.seed = random_seed();
  return options;
}

// Returns `value` as a float, or no threshold if it is below every float.
float threshold_of(double value) noexcept {
  if (!(value > static_cast<double>(std::numeric_limits<float>::lowest()))) return kNoThreshold;
  return static_cast<float>(
      std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
}

// Returns the only token of a set; -1 if there are more or none.
int32_t only_token(std::span<const uint32_t> allowed) noexcept {
  int32_t token = -1;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i] == 0) continue;
    if (token >= 0 || !std::has_single_bit(allowed[i])) return -1;
    token = static_cast<int32_t>(32 * i) + std::countr_zero(allowed[i]);
  }
  return token;
}

// Sets the logits of all other tokens to -infinity.
void keep_allowed(std::span<float> logits, std::span<const uint32_t> allowed) noexcept {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < allowed.size(); ++i) {
    const uint32_t word = allowed[i];
    if (word == ~uint32_t{0}) continue;
    const std::span<float> part =
        logits.subspan(32 * i, std::min<size_t>(32, logits.size() - 32 * i));
    for (size_t bit = 0; bit < part.size(); ++bit)
      if ((word >> bit & 1) == 0) part[bit] = kNever;
  }
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, int32_t n_vocab, std::span<const int32_t> prompt)
    : options_(checked(options, n_vocab)),
      n_vocab_(static_cast<size_t>(n_vocab)),
      random_(static_cast<uint64_t>(options_.seed)),
      penalties_(options_, n_vocab),
      mirostat_(options_) {
  for (const int32_t token : prompt) penalties_.accept(token);
}

Sampled Sampler::sample(std::span<const float> logits, std::span<const uint32_t> allowed) {
  BILLOW_CHECK(logits.size() == n_vocab_);
  BILLOW_CHECK(allowed.empty() || allowed.size() == (n_vocab_ + 31) / 32);
  Sampled sampled;
  sampled.token = only_token(allowed);
  const bool has_choice = sampled.token < 0;
  if (has_choice) {
    scan_.read(adjusted(logits, allowed));
    if (!scan_.has_finite()) fail(logits);
    sampled.token = choose();
  }
  if (options_.logprobs) {
    if (!has_choice || !adjusted_.empty()) scan_.read(logits);
    if (!scan_.has_finite()) fail(logits);
    report_logprobs(logits, sampled);
  }
  return sampled;
}

Sampled Sampler::score(std::span<const float> logits, int32_t token) {
  scan_.read(logits);
  if (!scan_.has_finite()) fail(logits);
  Sampled sampled{.token = token};
  report_logprobs(logits, sampled);
  return sampled;
}

void Sampler::fail(std::span<const float> logits) {
  scan_.read(logits);
  if (!scan_.has_finite()) throw NoFiniteLogits();
  throw Error(ErrorCode::kInvalidInput,
              "logit_bias, the penalties and the grammar leave no token to choose from: allow at "
              "least one");
}

std::span<const float> Sampler::adjusted(std::span<const float> logits,
                                         std::span<const uint32_t> allowed) {
  const bool changes = !options_.logit_bias.empty() || penalties_.active() || !allowed.empty();
  if (!changes) {
    adjusted_.clear();
    return logits;
  }
  adjusted_.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : options_.logit_bias) {
    adjusted_[static_cast<size_t>(entry.token)] += entry.bias;
  }
  penalties_.apply(adjusted_);
  keep_allowed(adjusted_, allowed);
  return adjusted_;
}

int32_t Sampler::choose() {
  if (options_.is_greedy()) return scan_.arg_max();
  return options_.mirostat == 0 ? choose_filtered() : choose_mirostat();
}

int32_t Sampler::choose_filtered() {
  const bool keeps_all = options_.top_k <= 0 || static_cast<size_t>(options_.top_k) >= n_vocab_;
  if (!keeps_all) {
    scan_.top(static_cast<size_t>(options_.top_k), candidates_);
  } else if (options_.typical_p < 1.0f) {
    scan_.at_least(kNoThreshold, candidates_);
  } else {
    collect_without_top_k();
  }
  keep_typical(candidates_, options_.typical_p);
  // keep_top_p() is not idempotent. The result of collect_without_top_k() must not be cut again.
  if (!keeps_all || options_.typical_p < 1.0f) keep_top_p(candidates_, options_.top_p);
  keep_min_p(candidates_, options_.min_p);
  return candidates_[draw(candidates_, options_.temperature, random_, weights_).index].token;
}

// Collects the candidates after top_p directly from the row. Usually few tokens have most of the
// probability; then the vocabulary is neither copied nor sorted.
void Sampler::collect_without_top_k() {
  if (options_.top_p < 1.0f) {
    const double weight = static_cast<double>(options_.top_p) * scan_.sum_exp(1.0f);
    for (size_t n = 64; n * 32 <= n_vocab_; n *= 8) {
      scan_.top(n, candidates_);
      if (keep_top_weight(candidates_, weight)) return;
    }
    scan_.at_least(kNoThreshold, candidates_);
    keep_top_weight(candidates_, weight);
    return;
  }
  // min_p, which is applied exactly afterwards. Rounded down, so that no candidate is lost here.
  const double min =
      static_cast<double>(scan_.max()) + std::log(static_cast<double>(options_.min_p));
  scan_.at_least(std::nextafter(threshold_of(min), kNoThreshold), candidates_);
}

int32_t Sampler::choose_mirostat() {
  const float temperature = options_.temperature;
  if (options_.mirostat == 1) {
    scan_.top(Mirostat::kEstimationTokens, candidates_);
    const size_t k = mirostat_.top_k(candidates_, temperature, static_cast<int32_t>(n_vocab_));
    if (k < candidates_.size()) {
      candidates_.resize(k);
    } else if (k > Mirostat::kEstimationTokens) {
      scan_.top_by_token(k, candidates_);
    }
  } else {
    // -log2 p <= mu, with ln p = logit / T - ln(sum of exp(logit / T)), solved for the logit.
    const double scale = std::min(1.0 / static_cast<double>(temperature), kMaxScale);
    const double min =
        static_cast<double>(scan_.max()) +
        (std::log(scan_.sum_exp(static_cast<float>(scale))) - mirostat_.mu() * std::log(2.0)) /
            scale;
    scan_.at_least(std::min(threshold_of(min), scan_.max()), candidates_);
  }
  const Drawn drawn = draw(candidates_, temperature, random_, weights_);
  mirostat_.observe(drawn.probability);
  return candidates_[drawn.index].token;
}

void Sampler::report_logprobs(std::span<const float> logits, Sampled& sampled) {
  // Exact to the precision of a float. std::min() only prevents values above 0 after rounding.
  const double log_total = static_cast<double>(scan_.max()) + std::log(scan_.sum_exp(1.0f));
  const auto logprob_of = [=](float logit) {
    return static_cast<float>(std::min(static_cast<double>(logit) - log_total, 0.0));
  };
  const float max = std::numeric_limits<float>::max();
  sampled.logprob = logprob_of(std::min(logits[static_cast<size_t>(sampled.token)], max));
  if (options_.top_logprobs == 0) return;
  scan_.top(static_cast<size_t>(options_.top_logprobs), candidates_);
  sampled.top.reserve(candidates_.size());
  for (const Candidate& candidate : candidates_) {
    sampled.top.push_back({candidate.token, logprob_of(candidate.logit)});
  }
}

}  // namespace billow::engine

#include "engine/sampling/penalties.h"

#include <algorithm>

namespace billow::engine {

Penalties::Penalties(const SamplingOptions& options, int32_t n_vocab)
    : repeat_(options.repeat_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty),
      window_tokens_(options.repeat_last_n > 0 ? static_cast<size_t>(options.repeat_last_n) : 0) {
  active_ =
      options.repeat_last_n != 0 && (repeat_ != 1.0f || presence_ != 0.0f || frequency_ != 0.0f);
  if (active_) counts_.resize(static_cast<size_t>(n_vocab));
}

void Penalties::accept(int32_t token) {
  if (!active_ || token < 0 || static_cast<size_t>(token) >= counts_.size()) return;
  if (++counts_[static_cast<size_t>(token)] == 1) present_.push_back(token);
  if (window_tokens_ == 0) return;
  if (recent_.size() < window_tokens_) {
    recent_.push_back(token);
    return;
  }
  remove(recent_[oldest_]);
  recent_[oldest_] = token;
  oldest_ = (oldest_ + 1) % window_tokens_;
}

void Penalties::remove(int32_t token) {
  if (--counts_[static_cast<size_t>(token)] > 0) return;
  *std::find(present_.begin(), present_.end(), token) = present_.back();
  present_.pop_back();
}

void Penalties::apply(std::span<float> logits) const noexcept {
  for (const int32_t token : present_) {
    float& logit = logits[static_cast<size_t>(token)];
    logit = logit > 0.0f ? logit / repeat_ : logit * repeat_;
    logit -= static_cast<float>(counts_[static_cast<size_t>(token)]) * frequency_ + presence_;
  }
}

}  // namespace billow::engine

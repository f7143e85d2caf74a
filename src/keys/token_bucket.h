// A budget of tokens that refills with time: a limit of tokens per minute. Pure: the caller passes
// the time. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace billow::keys {

using Time = std::chrono::steady_clock::time_point;

// The bucket holds at most the tokens of one minute. A request may begin while the bucket is not
// empty. Its tokens are taken when they are known, so the level may fall below 0. In a period
// t, the requests that begin get at most the tokens of t, plus those of one minute, plus the amount
// by which the level falls below 0.
class TokenBucket {
 public:
  // The bucket is full at first. 0 tokens per minute: no limit.
  TokenBucket(uint64_t per_minute, Time now)
      : per_minute_(static_cast<double>(per_minute)), level_(per_minute_), filled_at_(now) {}

  // Changes the limit. The level stays, but never exceeds the new limit. A bucket that had no limit
  // becomes full.
  void set_limit(uint64_t per_minute, Time now) {
    fill(now);
    const bool was_unlimited = per_minute_ <= 0.0;
    per_minute_ = static_cast<double>(per_minute);
    level_ = was_unlimited ? per_minute_ : std::min(level_, per_minute_);
  }

  // Returns whether a request may begin.
  bool admits(Time now) {
    fill(now);
    return per_minute_ <= 0.0 || level_ > 0.0;
  }

  void take(uint64_t n_tokens, Time now) {
    fill(now);
    if (per_minute_ > 0.0) level_ -= static_cast<double>(n_tokens);
  }

  // Returns the whole seconds until admits() returns true, at least 1.
  int64_t seconds_until_admits(Time now) {
    fill(now);
    if (per_minute_ <= 0.0 || level_ > 0.0) return 1;
    constexpr double kMaxSeconds = 1e9;
    const double seconds = std::floor(-level_ * 60.0 / per_minute_) + 1.0;
    return static_cast<int64_t>(std::min(seconds, kMaxSeconds));
  }

  double level() const noexcept { return level_; }

 private:
  void fill(Time now) {
    if (now <= filled_at_) return;
    const double seconds = std::chrono::duration<double>(now - filled_at_).count();
    level_ = std::min(per_minute_, level_ + seconds * per_minute_ / 60.0);
    filled_at_ = now;
  }

  double per_minute_;
  double level_;
  Time filled_at_;
};

}  // namespace billow::keys

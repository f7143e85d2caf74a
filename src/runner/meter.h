// Measures the utilisation and the speed of an engine over the last seconds. Plain data, not
// thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace billow::runner {

// Averages over the last Meter::kSeconds.
struct LoopRates {
  double busy = 0.0;            // share of the time in which a pass was computing
  double prompt_tokens = 0.0;   // evaluated per second of passes with prompt tokens; 0: none
  double decoded_tokens = 0.0;  // generated per second of passes with generated tokens; 0: none
};

class Meter {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kSeconds = 10;

  explicit Meter(Clock::time_point now) : began_(now) {}

  void begin_pass(Clock::time_point now) {
    pass_began_ = now;
    in_pass_ = true;
  }
  // Ends the current pass, which evaluated n_prompt tokens and generated n_decoded.
  void end_pass(Clock::time_point now, size_t n_prompt, size_t n_decoded);
  // Returns the averages. The time of a pass in flight counts as busy.
  LoopRates rates(Clock::time_point now) const;

 private:
  // The share of one second, counted from the start.
  struct Second {
    int64_t index = -1;
    std::chrono::nanoseconds busy{};
    std::chrono::nanoseconds prompt_time{};
    std::chrono::nanoseconds decode_time{};
    size_t n_prompt = 0;
    size_t n_decoded = 0;
  };
  using Seconds = std::array<Second, kSeconds>;

  int64_t index_of(Clock::time_point time) const;
  Second& second(Seconds& seconds, int64_t index) const;
  void add_busy(Seconds& seconds, Clock::time_point begin, Clock::time_point end) const;

  Clock::time_point began_;
  Clock::time_point pass_began_{};
  bool in_pass_ = false;
  Seconds seconds_{};
};

}  // namespace billow::runner

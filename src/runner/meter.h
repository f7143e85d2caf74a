// How busy an engine was in the last seconds, and how fast. Plain data; its owner sees to threads.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace billow::runner {

// Over the last Meter::kSeconds.
struct LoopRates {
  double busy = 0.0;            // share of the time in which a pass was computing
  double prompt_tokens = 0.0;   // evaluated, per second of the passes that evaluated some; 0: none
  double decoded_tokens = 0.0;  // written, likewise
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
  // The pass that began last has evaluated and written so many tokens.
  void end_pass(Clock::time_point now, size_t n_prompt, size_t n_decoded);
  // A pass that goes on counts as busy so far.
  LoopRates rates(Clock::time_point now) const;

 private:
  // What falls into one second since the beginning.
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

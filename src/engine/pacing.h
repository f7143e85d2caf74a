// Limits how long passes take while sequences generate. Prompts are evaluated in chunks of bounded
// time. Between the chunks, the generating sequences get passes without prompts. Pacing decides
// only when rows are evaluated, so it never changes their results. Pure; one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>

namespace billow::engine {

// Default time limit of a pass with generating sequences.
inline constexpr std::chrono::milliseconds kDefaultMaxPassTime{100};

class Pacing {
 public:
  // `max_pass_time`: limit of a pass that evaluates prompts together with generating sequences. If
  // twice the time of a pass with generating sequences alone is longer, that is the limit. Zero: no
  // limit.
  explicit Pacing(std::chrono::nanoseconds max_pass_time) noexcept;
  std::chrono::nanoseconds max_pass_time() const noexcept { return max_pass_time_; }

  // Returns the max rows of prompts and texts in the next pass together with generating sequences;
  // SIZE_MAX: no limit. Returns 0 if the generating sequences are too slow: they keep at least a
  // third of the rate that they have without prompts.
  size_t max_read_rows() const noexcept;

  struct Pass {
    size_t n_writing = 0;  // rows of generating sequences
    size_t n_reading = 0;  // all other rows
    std::chrono::nanoseconds time{};
  };
  void note(const Pass& pass) noexcept;

 private:
  std::chrono::nanoseconds max_pass_time_;
  double max_seconds_;
  double write_seconds_ = 0.0;  // time of a pass of generating sequences alone; 0: not measured
  double read_seconds_ = 0.0;   // additional time per row of a prompt; 0: not measured
  double credit_ = 0.0;         // passes that generating sequences had beyond their share
};

}  // namespace billow::engine

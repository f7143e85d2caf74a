// How far a transfer is, as a line for a terminal. Pure but for the clock that is given; any
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace billow::cli {

// Bytes per second over the last seconds. One thread.
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // `n_done` bytes were there at that time.
  void add(Time now, uint64_t n_done);
  double bytes_per_second() const;  // 0 as long as that is not known

 private:
  struct Sample {
    Time time;
    uint64_t n_done;
  };
  std::deque<Sample> samples_;
};

struct TransferProgress {
  uint64_t n_done = 0;  // bytes
  uint64_t n_total = 0;
  double bytes_per_second = 0;  // 0: unknown
};

// "pulling 6a0746a1ec1a:  45% ▕████▌     ▏ 1.2 GB/2.7 GB   50 MB/s     30s", as Ollama writes it:
// the bar takes what is left of `n_columns`. In few columns it shrinks first, then the time goes,
// the rate, the sizes, the bar, and the end of the step's words. No blanks at the end.
std::string progress_line(std::string_view step, const TransferProgress& progress,
                          size_t n_columns);

// The beginning of a line, in `n_columns` at most, with "…" where something is missing.
std::string cut_to_columns(std::string_view line, size_t n_columns);

}  // namespace billow::cli

// Formats the progress of a transfer as a line for a terminal. Pure; the caller passes the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace billow::cli {

// Measures bytes per second over the last seconds. Not thread-safe.
class RateMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Adds a sample: `n_done` bytes were complete at the time `now`.
  void add(Time now, uint64_t n_done);
  double bytes_per_second() const;  // 0: not known yet

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

// Formats a line like Ollama's: "pulling 6a0746a1ec1a:  45% ▕████▌     ▏ 1.2 GB/2.7 GB   50 MB/s
//  30s". The bar fills the rest of `n_columns`. If columns are few, the bar shrinks first. Then the
// time, the rate, the sizes, the bar and the end of `step` are left out, in this order. The line
// has no blanks at its end.
std::string progress_line(std::string_view step, const TransferProgress& progress,
                          size_t n_columns);

// Returns the beginning of a line, at most `n_columns` wide. A cut line ends with "…".
std::string cut_to_columns(std::string_view line, size_t n_columns);

}  // namespace billow::cli

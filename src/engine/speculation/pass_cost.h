// The time of passes by their number of rows, learned from measured passes. Pure; one thread at a
// time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace billow::engine {

class PassCost {
 public:
  // Records the time of a pass over n_rows rows of generating sequences. REQUIRES: n_rows > 0.
  void note(size_t n_rows, std::chrono::nanoseconds time) noexcept;
  // Returns the time of a pass over n_rows rows, as a multiple of the time of one row. Numbers of
  // rows without measurements are estimated from their neighbours. REQUIRES: n_rows > 0.
  double of(size_t n_rows) const noexcept;
  // Returns the same in seconds; 0: nothing was measured.
  double seconds(size_t n_rows) const noexcept { return one_row_ * of(n_rows); }
  // Whether there are enough measurements to forget a first pass that was too slow.
  bool is_known() const noexcept { return n_noted_ >= kFirst; }

 private:
  static constexpr size_t kFirst = 4;
  static constexpr size_t kClasses = 12;
  static const std::array<size_t, kClasses> kRows;  // [class]: its number of rows
  static size_t class_of(size_t n_rows) noexcept;
  double ratio_of_class(size_t index) const noexcept;

  size_t n_noted_ = 0;                         // at most kFirst
  std::array<size_t, kClasses> n_measured_{};  // [class]
  double one_row_ = 0.0;                       // seconds; 0: nothing was measured
  std::array<double, kClasses> ratios_{};      // [class]: relative to one_row_; 0: not measured
};

}  // namespace billow::engine

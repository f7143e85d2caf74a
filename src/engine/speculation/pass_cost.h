// How long passes take by their number of rows, learned from passes as they happen. Pure; one
// thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace billow::engine {

class PassCost {
 public:
  // A pass over n_rows rows of texts that are being written has taken so long. REQUIRES: n_rows >
  // 0.
  void note(size_t n_rows, std::chrono::nanoseconds time) noexcept;
  // Of a pass over n_rows rows, as a multiple of what a pass over one row takes. What was
  // not measured yet is guessed from its neighbours. REQUIRES: n_rows > 0.
  double of(size_t n_rows) const noexcept;
  // The same in seconds; 0: nothing was measured.
  double seconds(size_t n_rows) const noexcept { return one_row_ * of(n_rows); }

 private:
  static constexpr size_t kClasses = 12;
  static const std::array<size_t, kClasses>
      kRows;  // [class]: the number of rows that it stands for
  static size_t class_of(size_t n_rows) noexcept;
  double ratio_of_class(size_t index) const noexcept;

  std::array<size_t, kClasses> n_measured_{};  // [class]
  double one_row_ = 0.0;                       // seconds; 0: nothing was measured
  std::array<double, kClasses>
      ratios_{};  // to one_row_, of the class's own number of rows; 0: not measured
};

}  // namespace billow::engine

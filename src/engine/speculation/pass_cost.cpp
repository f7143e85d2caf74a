#include "engine/speculation/pass_cost.h"

#include <algorithm>

namespace billow::engine {
namespace {

constexpr double kScaleWeight = 0.125;  // weight of a new measurement, for the time of one row
constexpr double kRatioWeight = 0.06;   // the same for a known ratio of a number of rows
constexpr size_t kKnown = 4;            // measurements until a ratio is known
constexpr double kGuessedSlope = 0.2;   // assumed cost of a further row, relative to the first
constexpr double kTooSlow = 2.0;        // ratio of a first time that is forgotten to a later one
constexpr double kMaxSurprise = 1.5;    // limits the ratio of a measured time to its estimate

}  // namespace

constexpr std::array<size_t, PassCost::kClasses> PassCost::kRows = {1,  2,  3,  4,  6,  8,
                                                                    10, 14, 20, 32, 48, 64};

// Returns the last class with at most n_rows rows.
size_t PassCost::class_of(size_t n_rows) noexcept {
  const auto* const above = std::ranges::upper_bound(kRows, n_rows);
  return static_cast<size_t>(above - kRows.begin()) - 1;
}

// Returns the measured ratio, or interpolates between measured classes, or extrapolates from the
// last.
double PassCost::ratio_of_class(size_t index) const noexcept {
  if (index == 0) return 1.0;
  if (ratios_[index] > 0.0) return ratios_[index];
  size_t below = index - 1;
  while (below > 0 && ratios_[below] == 0.0) --below;
  size_t above = index + 1;
  while (above < kClasses && ratios_[above] == 0.0) ++above;
  const double from = below == 0 ? 1.0 : ratios_[below];
  const auto step = static_cast<double>(kRows[index] - kRows[below]);
  if (above == kClasses) return from + kGuessedSlope * step;
  const double share = step / static_cast<double>(kRows[above] - kRows[below]);
  return from + share * (std::max(from, ratios_[above]) - from);
}

double PassCost::of(size_t n_rows) const noexcept {
  const size_t index = class_of(n_rows);
  const double here = ratio_of_class(index);
  const auto more = static_cast<double>(n_rows - kRows[index]);
  if (index + 1 == kClasses) {
    const double before = ratio_of_class(index - 1);
    const auto step = static_cast<double>(kRows[index] - kRows[index - 1]);
    return here + more * std::max(0.0, here - before) / step;
  }
  const double next = std::max(here, ratio_of_class(index + 1));
  return here + more * (next - here) / static_cast<double>(kRows[index + 1] - kRows[index]);
}

void PassCost::note(size_t n_rows, std::chrono::nanoseconds time) noexcept {
  const double seconds = std::chrono::duration<double>(time).count();
  const double guess = of(n_rows);
  // The first pass can be many times too slow: its weights are read from the disk, or the system
  // delays its thread.
  const bool was_too_slow =
      n_noted_ > 0 && n_noted_ < kFirst && seconds * kTooSlow < one_row_ * guess;
  n_noted_ = std::min(n_noted_ + 1, kFirst);
  if (one_row_ == 0.0 || was_too_slow) {
    one_row_ = seconds / guess;
    return;
  }
  // The time of the pass, relative to its estimate.
  const double surprise =
      std::clamp(seconds / (one_row_ * guess), 1.0 / kMaxSurprise, kMaxSurprise);
  const size_t index = class_of(n_rows);
  const size_t n_before = n_measured_[index];
  n_measured_[index] = std::min(n_before + 1, kKnown);
  const bool is_known = index == 0 || n_before == kKnown;
  if (index > 0) {
    const double weight = is_known ? kRatioWeight : 1.0 / static_cast<double>(n_before + 2);
    ratios_[index] = std::max(1.0, ratio_of_class(index) * (1.0 + weight * (surprise - 1.0)));
  }
  // If a known number of rows takes longer, all passes do: the context has grown, or others run.
  if (is_known) one_row_ *= 1.0 + kScaleWeight * (surprise - 1.0);
}

}  // namespace billow::engine

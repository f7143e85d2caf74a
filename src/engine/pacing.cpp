#include "engine/pacing.h"

#include <algorithm>
#include <cstdint>

namespace billow::engine {
namespace {

// Generating sequences keep at least this part of the rate that they have without prompts.
constexpr double kShare = 1.0 / 3.0;
// A pass with prompts may always take this many times as long as a pass without prompts.
constexpr double kMaxSlowdown = 2.0;
constexpr double kWeight = 0.25;       // weight of a new measurement
constexpr size_t kFirstRows = 32;      // before the speed of the machine is known
constexpr double kMinRows = 8.0;       // fewer rows take as much time
constexpr double kMaxCredit = 1.0;     // the time of at most one pass is saved for later
constexpr double kMinCredit = -200.0;  // limits how many passes without prompts follow a slow one

double averaged(double known, double measured) noexcept {
  return known == 0.0 ? measured : known + kWeight * (measured - known);
}

}  // namespace

Pacing::Pacing(std::chrono::nanoseconds max_pass_time) noexcept
    : max_pass_time_(max_pass_time),
      max_seconds_(std::chrono::duration<double>(max_pass_time).count()) {}

size_t Pacing::max_read_rows() const noexcept {
  if (max_seconds_ <= 0.0) return SIZE_MAX;
  if (credit_ < 0.0) return 0;
  if (read_seconds_ == 0.0) return kFirstRows;
  // If passes without prompts are slow, a pass with prompts may take twice their time.
  const double max_seconds = std::max(max_seconds_, kMaxSlowdown * write_seconds_);
  const double n_rows = (max_seconds - write_seconds_) / read_seconds_;
  return static_cast<size_t>(std::clamp(n_rows, kMinRows, 1e6));
}

void Pacing::note(const Pass& pass) noexcept {
  const double seconds = std::chrono::duration<double>(pass.time).count();
  if (pass.n_reading == 0) {
    write_seconds_ = averaged(write_seconds_, seconds);
  } else {
    const double rest = pass.n_writing > 0 ? std::max(0.0, seconds - write_seconds_) : seconds;
    read_seconds_ = averaged(read_seconds_, rest / static_cast<double>(pass.n_reading));
  }
  if (pass.n_writing == 0) {
    credit_ = 0.0;  // no sequence had to wait
  } else if (write_seconds_ > 0.0) {
    credit_ = std::clamp(credit_ + 1.0 - kShare * seconds / write_seconds_, kMinCredit, kMaxCredit);
  }
}

}  // namespace billow::engine

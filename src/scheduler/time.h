// Times and durations of the scheduler: nanoseconds of a monotonic clock. The caller reads the
// clock. Any thread.
#pragma once

#include <chrono>

namespace billow::scheduler {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::nanoseconds;  // since a moment that the caller chose

inline constexpr Duration kForever = Duration::max();
inline constexpr Time kNever = Time::max();

// Returns time + duration, or `kNever` if the sum overflows. REQUIRES: duration >= 0.
constexpr Time later(Time time, Duration duration) {
  return time > kNever - duration ? kNever : time + duration;
}

}  // namespace billow::scheduler

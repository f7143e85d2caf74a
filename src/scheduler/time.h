// Times and durations of the scheduler: nanoseconds of a monotonic clock that the caller reads.
// Any thread.
#pragma once

#include <chrono>

namespace billow::scheduler {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::nanoseconds;  // since a moment that the caller chose

inline constexpr Duration kForever = Duration::max();
inline constexpr Time kNever = Time::max();

// `kNever` where the sum is beyond every time. `duration` is not negative.
constexpr Time later(Time time, Duration duration) {
  return time > kNever - duration ? kNever : time + duration;
}

}  // namespace billow::scheduler

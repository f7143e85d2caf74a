// When a model's runner died of itself, and what follows from it: how soon it may be started again,
// and when not at all. One thread at a time.
#pragma once

#include <cstddef>
#include <deque>

#include "scheduler/time.h"

namespace billow::scheduler {

struct RestartPolicy {
  size_t n_limit = 3;  // so many deaths within `window` are too many
  Duration window = std::chrono::minutes(1);
  Duration pause = std::chrono::seconds(30);              // then, before a request may try again
  Duration first_delay = std::chrono::milliseconds(250);  // doubled by each death of the window
};

class CrashHistory {
 public:
  void record(Time now, const RestartPolicy& policy);

  // Too many, and the pause is not over: requests are answered with an error.
  bool given_up(Time now) const { return now < given_up_until_; }
  Time restart_at() const { return restart_at_; }
  // Nothing of it matters any more.
  bool forgotten(Time now, const RestartPolicy& policy) const;

 private:
  std::deque<Time> deaths_;  // of the last window
  Time given_up_until_ = Time::min();
  Time restart_at_ = Time::min();
};

}  // namespace billow::scheduler

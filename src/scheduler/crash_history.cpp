#include "scheduler/crash_history.h"

#include <algorithm>

namespace billow::scheduler {

void CrashHistory::record(Time now, const RestartPolicy& policy) {
  while (!deaths_.empty() && later(deaths_.front(), policy.window) <= now) deaths_.pop_front();
  deaths_.push_back(now);
  // Few deaths fit a window, but a policy may allow many: the delay never passes the window.
  Duration delay = std::min(policy.first_delay, policy.window);
  for (size_t i = 1; i < deaths_.size() && delay < policy.window; ++i)
    delay = std::min(delay * 2, policy.window);
  restart_at_ = later(now, delay);
  if (deaths_.size() >= policy.n_limit) given_up_until_ = later(now, policy.pause);
}

bool CrashHistory::forgotten(Time now, const RestartPolicy& policy) const {
  return !given_up(now) && restart_at_ <= now &&
         (deaths_.empty() || later(deaths_.back(), policy.window) <= now);
}

}  // namespace billow::scheduler

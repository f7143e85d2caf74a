#include "scheduler/crash_history.h"

#include <algorithm>

namespace billow::scheduler {

void CrashHistory::record(Time now, const RestartPolicy& policy) {
  while (!deaths_.empty() && later(deaths_.front(), policy.window) <= now) deaths_.pop_front();
  deaths_.push_back(now);
  // A policy may allow many crashes. The delay never exceeds the window.
  Duration delay = std::min(policy.first_delay, policy.window);
  for (size_t i = 1; i < deaths_.size() && delay < policy.window; ++i)
    delay = std::min(delay * 2, policy.window);
  restart_at_ = later(now, delay);
  if (deaths_.size() >= policy.n_limit) given_up_until_ = later(now, policy.pause);
}

void CrashHistory::suspect(uint64_t digest, bool alone, Time now, const RestartPolicy& policy) {
  std::erase_if(suspects_,
                [&](const auto& entry) { return later(entry.second.last, policy.window) <= now; });
  if (digest == 0) return;
  Suspect& suspect = suspects_[digest];
  ++suspect.n_deaths;
  suspect.is_culprit = suspect.is_culprit || alone;
  suspect.last = now;
}

void CrashHistory::clear(uint64_t digest) {
  deaths_.clear();
  given_up_until_ = restart_at_ = Time::min();
  suspects_.erase(digest);
}

const CrashHistory::Suspect* CrashHistory::find(uint64_t digest, Time now,
                                                const RestartPolicy& policy) const {
  const auto found = suspects_.find(digest);
  if (found == suspects_.end() || later(found->second.last, policy.window) <= now) return nullptr;
  return &found->second;
}

bool CrashHistory::is_suspect(uint64_t digest, Time now, const RestartPolicy& policy) const {
  const Suspect* suspect = find(digest, now, policy);
  return suspect != nullptr && suspect->n_deaths >= kMaxDeaths;
}

bool CrashHistory::is_refused(uint64_t digest, Time now, const RestartPolicy& policy) const {
  const Suspect* suspect = find(digest, now, policy);
  return suspect != nullptr && suspect->is_culprit;
}

bool CrashHistory::forgotten(Time now, const RestartPolicy& policy) const {
  const auto is_over = [&](Time then) { return later(then, policy.window) <= now; };
  return !given_up(now) && restart_at_ <= now && (deaths_.empty() || is_over(deaths_.back())) &&
         std::ranges::all_of(suspects_,
                             [&](const auto& entry) { return is_over(entry.second.last); });
}

}  // namespace billow::scheduler

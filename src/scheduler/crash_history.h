// Records crashes of a model's runners and the requests that were running. Decides how soon the
// next runner may start, whether all requests are rejected, and which requests are rejected. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "scheduler/time.h"

namespace billow::scheduler {

struct RestartPolicy {
  size_t n_limit = 3;  // this many crashes within `window` pause the model
  Duration window = std::chrono::minutes(1);
  Duration pause = std::chrono::seconds(30);              // length of that pause
  Duration first_delay = std::chrono::milliseconds(250);  // doubled by each crash within the window
};

// Max crashes per request. After its first crash, a request runs alone; at this many crashes, it
// fails. If requests with the same digest ran during this many crashes, a new one runs alone from
// the start.
inline constexpr size_t kMaxDeaths = 2;

class CrashHistory {
 public:
  // Records a crash that no single request explains.
  void record(Time now, const RestartPolicy& policy);
  // Records that a request with this `digest` (Request::digest) ran during a crash. `alone` means
  // that it was a suspect and ran alone, so that it caused the crash.
  void suspect(uint64_t digest, bool alone, Time now, const RestartPolicy& policy);
  // Records that a request finished. This proves that the model works and that the request is
  // harmless.
  void clear(uint64_t digest);

  // Returns true after too many crashes, until the pause is over: all requests are rejected.
  bool given_up(Time now) const { return now < given_up_until_; }
  // Returns whether requests with this digest ran during kMaxDeaths crashes, the last one within
  // the window.
  bool is_suspect(uint64_t digest, Time now, const RestartPolicy& policy) const;
  // Returns whether such a request ran alone during a crash within the window.
  bool is_refused(uint64_t digest, Time now, const RestartPolicy& policy) const;
  Time restart_at() const { return restart_at_; }
  // Returns true if the history no longer matters.
  bool forgotten(Time now, const RestartPolicy& policy) const;

 private:
  struct Suspect {
    size_t n_deaths = 0;
    bool is_culprit = false;
    Time last{};
  };
  const Suspect* find(uint64_t digest, Time now, const RestartPolicy& policy) const;

  std::deque<Time> deaths_;               // within the last window
  std::map<uint64_t, Suspect> suspects_;  // by digest; within the last window
  Time given_up_until_ = Time::min();
  Time restart_at_ = Time::min();
};

}  // namespace billow::scheduler

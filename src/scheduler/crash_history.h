// When the runners of a model died without being asked, which requests ran then, and what follows:
// how soon the next runner may start, when requests are refused, and which requests are refused.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "scheduler/time.h"

namespace billow::scheduler {

struct RestartPolicy {
  size_t n_limit = 3;  // this many deaths within `window` are too many
  Duration window = std::chrono::minutes(1);
  Duration pause = std::chrono::seconds(30);              // then, before a request may try again
  Duration first_delay = std::chrono::milliseconds(250);  // doubled by each death of the window
};

// A request that ran at this many deaths of a runner fails: after the first death it runs alone.
// One that asks the same as requests that ran at so many deaths runs alone from the start.
inline constexpr size_t kMaxDeaths = 2;

class CrashHistory {
 public:
  // A death that no single request explains.
  void record(Time now, const RestartPolicy& policy);
  // Requests that ask this ran at a death: `digest` is Request::digest. `alone`: nothing else ran,
  // because this was a suspect already, so that it explains the death.
  void suspect(uint64_t digest, bool alone, Time now, const RestartPolicy& policy);
  // A request finished: the model is sound, and what this request asks is harmless.
  void clear(uint64_t digest);

  // Too many, and the pause is not over: requests are answered with an error.
  bool given_up(Time now) const { return now < given_up_until_; }
  // Of what asks this: it ran at kMaxDeaths deaths, the last one within the window.
  bool is_suspect(uint64_t digest, Time now, const RestartPolicy& policy) const;
  // And at the last one alone.
  bool is_refused(uint64_t digest, Time now, const RestartPolicy& policy) const;
  Time restart_at() const { return restart_at_; }
  // Nothing of it matters any more.
  bool forgotten(Time now, const RestartPolicy& policy) const;

 private:
  struct Suspect {
    size_t n_deaths = 0;
    bool is_culprit = false;
    Time last{};
  };
  const Suspect* find(uint64_t digest, Time now, const RestartPolicy& policy) const;

  std::deque<Time> deaths_;               // of the last window
  std::map<uint64_t, Suspect> suspects_;  // by digest; of the last window
  Time given_up_until_ = Time::min();
  Time restart_at_ = Time::min();
};

}  // namespace billow::scheduler

// What programs that watch a server are told, beside metrics: whose memory is what, and how the
// last minutes were.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/json_fwd.h"
#include "scheduler/scheduler.h"

namespace billow::server {

// {"budget_bytes","granted_bytes","waiting","models":[{"name","state","granted_bytes","held_bytes",
// "kv_in_use_bytes","kv_cached_bytes","resident_bytes","gpu_bytes","running","waiting",
// "load_ratio"?}]}. "state" is "loading", "ready" or "unloading"; held bytes are those of weights
// and work space and of both kinds of KV. "load_ratio" is how far a load is, from 0 to 1, where its
// length is known. Pure.
Json memory_json(const scheduler::SchedulerState& state);

// One moment of a server.
struct Sample {
  std::chrono::system_clock::time_point time{};
  size_t n_running = 0;
  size_t n_waiting = 0;
  double busy_ratio = 0.0;
  uint64_t held_bytes = 0;
  uint64_t n_prompt = 0;     // tokens of answers that have ended, since the start: read,
  uint64_t n_generated = 0;  // and written
};

// The latest samples, taken at an even pace by a thread of its own. Any thread may ask.
class History {
 public:
  static constexpr size_t kMaxSamples = 300;

  History(std::chrono::milliseconds interval, std::function<Sample()> take);

  // {"interval_ms","samples":[[time_ms,running,waiting,busy_ratio,held_bytes,prompt_tokens,
  // generated_tokens],...]}, oldest first; the time is that of Unix.
  Json json() const;

 private:
  void run(const std::stop_token& stop);

  const std::chrono::milliseconds interval_;
  const std::function<Sample()> take_;
  mutable std::mutex mutex_;
  std::condition_variable_any ended_;
  std::deque<Sample> samples_;
  std::jthread thread_;  // uses all of the above
};

}  // namespace billow::server

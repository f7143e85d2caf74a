// Data for programs that monitor a server, in addition to metrics: memory per model, and a history
// of the last minutes.
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

// Returns {"budget_bytes","granted_bytes","waiting","models":[{"name","state","granted_bytes",
// "held_bytes","kv_in_use_bytes","kv_cached_bytes","resident_bytes","gpu_bytes","running","waiting",
// "load_ratio"?}]}. "state" is "loading", "ready" or "unloading". Held bytes are weights, work
// space and both kinds of KV. "load_ratio" is the progress of a load from 0 to 1, if the load
// reports its size. Pure.
Json memory_json(const scheduler::SchedulerState& state);

// The state of a server at one moment.
struct Sample {
  std::chrono::system_clock::time_point time{};
  size_t n_running = 0;
  size_t n_waiting = 0;
  double busy_ratio = 0.0;
  uint64_t held_bytes = 0;
  uint64_t n_prompt = 0;     // tokens of finished responses since the start: prompts
  uint64_t n_generated = 0;  // and generated tokens
};

// Keeps the latest samples. A background thread takes them at a fixed interval. Thread-safe.
class History {
 public:
  static constexpr size_t kMaxSamples = 300;

  History(std::chrono::milliseconds interval, std::function<Sample()> take);

  // Returns {"interval_ms","samples":[[time_ms,running,waiting,busy_ratio,held_bytes,prompt_tokens,
  // generated_tokens],...]}, oldest first. The time is Unix time.
  Json json() const;

 private:
  void run(const std::stop_token& stop);

  const std::chrono::milliseconds interval_;
  const std::function<Sample()> take_;
  mutable std::mutex mutex_;
  std::condition_variable_any ended_;
  std::deque<Sample> samples_;
  std::jthread thread_;  // uses all members above
};

}  // namespace billow::server

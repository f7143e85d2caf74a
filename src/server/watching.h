// Data for programs that monitor a server, in addition to metrics: memory per model, a history of
// the last minutes, and events as they happen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json.h"
#include "scheduler/scheduler.h"
#include "server/event_feed.h"

namespace billow::server {

// Returns {"budget_bytes","granted_bytes","waiting","models":[{"name","state","granted_bytes",
// "held_bytes","kv_in_use_bytes","kv_cached_bytes","resident_bytes","gpu_bytes","running","waiting",
// "load_ratio"?,"loaded_bytes"?,"to_load_bytes"?}]}. "state" is "loading", "ready" or "unloading".
// Held bytes are weights, work space and both kinds of KV. The last three fields are the progress
// of a load, if the load reports its size; the ratio is from 0 to 1. Pure.
Json memory_json(const scheduler::SchedulerState& state);

using WallClock = std::chrono::system_clock;
int64_t unix_ms(WallClock::time_point time);

// The state of a server at one moment.
struct Sample {
  WallClock::time_point time{};
  size_t n_running = 0;
  size_t n_waiting = 0;
  double busy_ratio = 0.0;
  std::vector<std::pair<std::string, uint64_t>> held{};  // bytes of each loaded model
  uint64_t n_prompt = 0;     // tokens of finished responses since the start: prompts
  uint64_t n_generated = 0;  // and generated tokens
};
// Returns [time_ms,running,waiting,busy_ratio,held_bytes,prompt_tokens,generated_tokens,
// {"MODEL":held_bytes,...}]. The time is Unix time.
Json sample_json(const Sample& sample);

// Memory was freed because it was needed elsewhere.
struct Eviction {
  WallClock::time_point time{};
  std::string model{};
  std::string
      memory_class{};  // "kv_cached", "adapters", or "model": a whole idle model was unloaded
  uint64_t bytes = 0;
};
Json eviction_json(const Eviction& eviction);  // {"time","model","class","bytes"}

// The embedding passes that a model has finished since the last look.
struct Passes {
  std::string model{};
  std::vector<scheduler::PassRecord> list{};
  uint64_t n_left_out = 0;  // older passes that nobody recorded
};
// Returns {"time","model","passes":[[time_ms,texts,tokens,ms],...],"left_out"?}.
Json passes_json(const Passes& passes, WallClock::time_point now);

// Finds what has changed from one state of the scheduler to the next. Not thread-safe.
class Changes {
 public:
  struct Found {
    Json memory{};  // memory_json(); null: it has not changed
    std::vector<Eviction> evictions{};
    std::vector<Passes> passes{};
  };
  Found look(const scheduler::SchedulerState& state, WallClock::time_point now);

 private:
  // What is known of a runner.
  struct Seen {
    pid_t pid = 0;
    uint64_t kv_evicted_bytes = 0;
    uint64_t adapters_evicted_bytes = 0;
    uint64_t n_passes = 0;
  };
  Json memory_;
  std::map<std::string, Seen> seen_;  // by key
};

// Keeps the latest samples, evictions and embedding passes. Thread-safe.
class History {
 public:
  static constexpr size_t kMaxSamples = 300;
  static constexpr size_t kMaxEvictions = 200;
  static constexpr size_t kMaxPasses = 600;

  explicit History(std::chrono::milliseconds interval) : interval_(interval) {}

  std::chrono::milliseconds interval() const noexcept { return interval_; }
  void add(const Sample& sample);
  void add(const Eviction& eviction);
  void add(const Passes& passes);
  // Returns {"interval_ms","samples":[sample_json(),...],"evictions":[eviction_json(),...],
  // "passes":[[time_ms,texts,tokens,ms,model],...]}, oldest first.
  Json json() const;

 private:
  const std::chrono::milliseconds interval_;
  mutable std::mutex mutex_;
  std::deque<Sample> samples_;
  std::deque<Eviction> evictions_;
  std::deque<std::pair<std::string, scheduler::PassRecord>> passes_;
};

// Looks at the server again and again, on a thread of its own: takes the samples of the history,
// and publishes samples and changes. Looks often only while somebody reads the events.
class Observer {
 public:
  struct Sources {
    std::function<scheduler::SchedulerState()> state;
    std::function<Sample()> sample;
  };
  // How often it looks while somebody reads the events.
  static constexpr std::chrono::milliseconds kLookInterval{250};

  // Both objects must outlive the observer.
  Observer(EventFeed& feed, History& history, Sources sources);

  // Looks soon. Any thread.
  void wake();

 private:
  void run(const std::stop_token& stop);
  void look();

  EventFeed& feed_;
  History& history_;
  const Sources sources_;
  Changes changes_;  // used by the thread only
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_woken_ = false;
  std::jthread thread_;  // uses all members above
};

// Publishes news of the scheduler, and keeps its evictions in the history.
void publish_news(const scheduler::ModelNews& news, EventFeed& feed, History& history);

}  // namespace billow::server

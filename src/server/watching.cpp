#include "server/watching.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace billow::server {
namespace {

const char* state_name(const scheduler::ModelSnapshot& model) {
  if (model.phase == scheduler::Phase::kUnloading || model.is_stopping) return "unloading";
  return model.phase == scheduler::Phase::kReady ? "ready" : "loading";
}

Json model_json(const scheduler::LoadedModel& loaded) {
  const scheduler::RunnerHealth& health = loaded.health;
  Json json = {{"name", loaded.model.name},
               {"state", state_name(loaded.model)},
               {"granted_bytes", loaded.model.granted_bytes},
               {"held_bytes", loaded.model.held_bytes},
               {"kv_in_use_bytes", health.kv_used_bytes},
               {"kv_cached_bytes", health.cached_bytes},
               {"resident_bytes", health.resident_bytes},
               {"gpu_bytes", health.gpu_bytes},
               {"running", health.n_running},
               {"waiting", loaded.model.n_waiting + health.n_waiting}};
  if (loaded.model.phase != scheduler::Phase::kLoading || health.n_to_load == 0) return json;
  const uint64_t n_loaded = std::min(health.n_loaded, health.n_to_load);
  json["load_ratio"] = static_cast<double>(n_loaded) / static_cast<double>(health.n_to_load);
  json["loaded_bytes"] = n_loaded;
  json["to_load_bytes"] = health.n_to_load;
  return json;
}

// Appends a value. If there are then more than n_max values, drops the oldest.
template <typename Value>
void keep(std::deque<Value>& values, Value value, size_t n_max) {
  values.push_back(std::move(value));
  if (values.size() > n_max) values.pop_front();
}

Json pass_json(const scheduler::PassRecord& pass) {
  return {pass.time_ms, pass.n_texts, pass.n_tokens, pass.ms};
}

}  // namespace

Json memory_json(const scheduler::SchedulerState& state) {
  Json models = Json::array();
  for (const scheduler::LoadedModel& loaded : state.models) models.push_back(model_json(loaded));
  return {{"budget_bytes", state.budget_bytes},
          {"granted_bytes", state.granted_bytes},
          {"waiting", state.n_waiting},
          {"models", std::move(models)}};
}

int64_t unix_ms(WallClock::time_point time) {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

Json sample_json(const Sample& sample) {
  uint64_t n_held = 0;
  Json held = Json::object();
  for (const auto& [model, bytes] : sample.held) {
    n_held += bytes;
    held[model] = bytes + held.value(model, uint64_t{0});
  }
  return {unix_ms(sample.time), sample.n_running,   sample.n_waiting, sample.busy_ratio, n_held,
          sample.n_prompt,      sample.n_generated, std::move(held)};
}

Json eviction_json(const Eviction& eviction) {
  return {{"time", unix_ms(eviction.time)},
          {"model", eviction.model},
          {"class", eviction.memory_class},
          {"bytes", eviction.bytes}};
}

Json passes_json(const Passes& passes, WallClock::time_point now) {
  Json list = Json::array();
  for (const scheduler::PassRecord& pass : passes.list) list.push_back(pass_json(pass));
  Json json = {{"time", unix_ms(now)}, {"model", passes.model}, {"passes", std::move(list)}};
  if (passes.n_left_out > 0) json["left_out"] = passes.n_left_out;
  return json;
}

Changes::Found Changes::look(const scheduler::SchedulerState& state, WallClock::time_point now) {
  Found found;
  std::map<std::string, Seen> seen;
  for (const scheduler::LoadedModel& loaded : state.models) {
    const scheduler::RunnerHealth& health = loaded.health;
    const std::string& name = loaded.model.name;
    const auto known = seen_.find(loaded.model.key);
    // The counters of a new runner begin at 0.
    Seen last = known != seen_.end() && known->second.pid == loaded.pid ? known->second : Seen{};
    const auto evict = [&](const char* memory_class, uint64_t bytes, uint64_t before) {
      if (bytes > before) found.evictions.push_back({now, name, memory_class, bytes - before});
    };
    evict("kv_cached", health.kv_evicted_bytes, last.kv_evicted_bytes);
    evict("adapters", health.adapters_evicted_bytes, last.adapters_evicted_bytes);
    Passes passes{.model = name};
    for (const scheduler::PassRecord& pass : health.embed_passes) {
      if (pass.number <= last.n_passes) continue;
      passes.n_left_out += pass.number - last.n_passes - 1;
      last.n_passes = pass.number;
      passes.list.push_back(pass);
    }
    if (!passes.list.empty()) found.passes.push_back(std::move(passes));
    seen[loaded.model.key] = {loaded.pid, health.kv_evicted_bytes, health.adapters_evicted_bytes,
                              last.n_passes};
  }
  seen_ = std::move(seen);
  Json memory = memory_json(state);
  if (memory != memory_) found.memory = memory_ = std::move(memory);
  return found;
}

void History::add(const Sample& sample) {
  const std::scoped_lock lock(mutex_);
  keep(samples_, sample, kMaxSamples);
}

void History::add(const Eviction& eviction) {
  const std::scoped_lock lock(mutex_);
  keep(evictions_, eviction, kMaxEvictions);
}

void History::add(const Passes& passes) {
  const std::scoped_lock lock(mutex_);
  for (const scheduler::PassRecord& pass : passes.list)
    keep(passes_, std::pair(passes.model, pass), kMaxPasses);
}

Json History::json() const {
  Json samples = Json::array();
  Json evictions = Json::array();
  Json passes = Json::array();
  {
    const std::scoped_lock lock(mutex_);
    for (const Sample& sample : samples_) samples.push_back(sample_json(sample));
    for (const Eviction& eviction : evictions_) evictions.push_back(eviction_json(eviction));
    for (const auto& [model, pass] : passes_) {
      Json& row = passes.emplace_back(pass_json(pass));
      row.push_back(model);
    }
  }
  return {{"interval_ms", interval_.count()},
          {"samples", std::move(samples)},
          {"evictions", std::move(evictions)},
          {"passes", std::move(passes)}};
}

Observer::Observer(EventFeed& feed, History& history, Sources sources)
    : feed_(feed),
      history_(history),
      sources_(std::move(sources)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Observer::wake() {
  {
    const std::scoped_lock lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_all();
}

void Observer::run(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_sample = Clock::now();
  while (!stop.stop_requested()) {
    look();
    if (Clock::now() >= next_sample) {
      const Sample sample = sources_.sample();
      history_.add(sample);
      if (feed_.has_readers())
        feed_.publish("sample", {{"time", unix_ms(sample.time)}, {"sample", sample_json(sample)}});
      next_sample = Clock::now() + history_.interval();
    }
    Clock::time_point next = next_sample;
    if (feed_.has_readers()) next = std::min(next, Clock::now() + kLookInterval);
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, stop, next, [this] { return is_woken_; });
    is_woken_ = false;
  }
}

void Observer::look() {
  const WallClock::time_point now = WallClock::now();
  const Changes::Found found = changes_.look(sources_.state(), now);
  for (const Eviction& eviction : found.evictions) {
    history_.add(eviction);
    feed_.publish("eviction", eviction_json(eviction));
  }
  for (const Passes& passes : found.passes) {
    history_.add(passes);
    feed_.publish("embedding", passes_json(passes, now));
  }
  if (!found.memory.is_null()) feed_.publish("memory", found.memory);
}

void publish_news(const scheduler::ModelNews& news, EventFeed& feed, History& history) {
  constexpr const char* kStates[] = {"loading", "ready", "failed", "unloading", "unloaded"};
  const WallClock::time_point now = WallClock::now();
  if (news.makes_room) {
    const Eviction eviction{now, news.name, "model", news.bytes};
    history.add(eviction);
    if (feed.has_readers()) feed.publish("eviction", eviction_json(eviction));
  }
  if (!feed.has_readers()) return;
  Json json = {{"time", unix_ms(now)},
               {"model", news.name},
               {"state", kStates[static_cast<size_t>(news.kind)]}};
  if (news.makes_room) json["makes_room"] = true;
  if (!news.detail.empty()) json["detail"] = news.detail;
  feed.publish("model", json);
}

}  // namespace billow::server

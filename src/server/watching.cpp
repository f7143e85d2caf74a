#include "server/watching.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

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
  if (loaded.model.phase == scheduler::Phase::kLoading && health.n_to_load > 0)
    json["load_ratio"] =
        std::min(1.0, static_cast<double>(health.n_loaded) / static_cast<double>(health.n_to_load));
  return json;
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

History::History(std::chrono::milliseconds interval, std::function<Sample()> take)
    : interval_(interval),
      take_(std::move(take)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void History::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Sample sample = take_();
    std::unique_lock lock(mutex_);
    samples_.push_back(sample);
    if (samples_.size() > kMaxSamples) samples_.pop_front();
    ended_.wait_for(lock, stop, interval_, [] { return false; });
  }
}

Json History::json() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  Json samples = Json::array();
  {
    const std::scoped_lock lock(mutex_);
    for (const Sample& one : samples_)
      samples.push_back({duration_cast<milliseconds>(one.time.time_since_epoch()).count(),
                         one.n_running, one.n_waiting, one.busy_ratio, one.held_bytes, one.n_prompt,
                         one.n_generated});
  }
  return {{"interval_ms", interval_.count()}, {"samples", std::move(samples)}};
}

}  // namespace billow::server

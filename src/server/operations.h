// Routes for operators: health, readiness, metrics and traces. None of them waits for a runner.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "base/json_fwd.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"
#include "server/event_feed.h"

namespace billow::server {

struct Operations {
  // Returns a line for each reason why the server is not ready.
  std::function<std::vector<std::string>()> not_ready;
  // Does the same for one model. If `loadable` is true, a model that is not loaded but can be
  // loaded counts as ready.
  std::function<std::vector<std::string>(const std::string& model, bool loadable)> model_not_ready;
  std::function<metrics::Load()> load;
  metrics::Metrics& metrics;
  metrics::TraceStore& traces;
  std::function<Json()> memory;   // memory_json()
  std::function<Json()> history;  // History::json()
  EventFeed& feed;
  // Returns server facts for the web page: {"version","node","read_only","on_network"}.
  std::function<Json()> server;
  bool aliases = false;  // add vLLM's names to /metrics
};

// Returns the routes GET /healthz, /readyz, /health, /metrics, /metrics/load, /api/trace,
// /api/trace/:id, /api/memory, /api/history, /api/events and /api/server. `operations` must outlive
// the routes.
std::vector<api::Route> operation_routes(const Operations& operations);

// Converts the scheduler's state to the load that metrics report.
metrics::Load load_of(const scheduler::SchedulerState& state);

}  // namespace billow::server

// Routes for those who run the server: health, readiness, metrics, traces. None of them waits for a
// runner.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "base/json_fwd.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"

namespace billow::server {

struct Operations {
  // A line for each thing that keeps the server from being ready.
  std::function<std::vector<std::string>()> not_ready;
  // The same for one model; `loadable`: it need not be loaded, if it can be.
  std::function<std::vector<std::string>(const std::string& model, bool loadable)> model_not_ready;
  std::function<metrics::Load()> load;
  metrics::Metrics& metrics;
  metrics::TraceStore& traces;
  std::function<Json()> memory;   // memory_json()
  std::function<Json()> history;  // History::json()
  // What a page shows of the server: {"version","node","read_only","on_network"}.
  std::function<Json()> server;
  bool aliases = false;  // vLLM's names in the whole text, too
};

// GET /healthz, /readyz, /health, /metrics, /metrics/load, /api/trace, /api/trace/:id, /api/memory,
// /api/history, /api/server. The operations outlive the routes.
std::vector<api::Route> operation_routes(const Operations& operations);

// What the scheduler's state says of the load.
metrics::Load load_of(const scheduler::SchedulerState& state);

}  // namespace billow::server

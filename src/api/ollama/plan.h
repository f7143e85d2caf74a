// POST /api/plan: what a request would need, without running it. The server renders, counts and
// sizes the prompt, and computes the memory; nothing is loaded. Thread-safe.
#pragma once

#include <functional>
#include <vector>

#include "api/call.h"
#include "api/catalog.h"
#include "api/generator.h"
#include "scheduler/scheduler.h"

namespace billow::api::ollama {

struct PlanSource {
  Generator& generator;
  Catalog& catalog;
  std::function<scheduler::SchedulerState()> state;
};

// The body is one of /api/chat, or of /api/generate if it has "prompt". A body with only a model
// plans the load of the model. The response:
//
//   {"model":"m:latest","loaded":false,
//    "prompt_tokens":31,"prompt_tokens_full":31,"context":8192,"max_context":8192,"reason":"...",
//    "memory":{"weights_bytes":...,"scratch_bytes":...,"kv_bytes":...,"total_bytes":...,
//              "budget_bytes":...,"free_bytes":...,"fits":true}}
//
// The memory is what the scheduler grants before the answer begins; an answer that grows gets more.
// prompt_tokens_full counts the prompt before old messages are left out. free_bytes is the part of
// the budget that no loaded model has. fits: the budget is large enough, if necessary after other
// models are unloaded. A load without a request has no prompt and no context. REQUIRES: what
// `source` refers to outlives the routes.
std::vector<Route> plan_routes(const PlanSource& source);

}  // namespace billow::api::ollama

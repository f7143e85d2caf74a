// Routes that llama-server and vLLM have beside those of OpenAI: /completion, /completions,
// /infill, /props, /slots, /apply-template, /tokenizer_info and /version, and some of OpenAI's
// without /v1. They name their model by a field or a parameter of the query, ?model=NAME; where the
// store has one model, that one is meant.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/catalog.h"
#include "api/generator.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

namespace billow::api::llama {

struct Sources {
  Generator& generator;
  Catalog& catalog;
  const store::Store& store;
  std::function<scheduler::SchedulerState()> state;
  std::string version;     // of this server
  size_t n_parallel = 1;   // requests that run on one model at once
  size_t max_context = 0;  // of any request; 0: the model's
};

// What `sources` refers to outlives the routes. Handlers may run on any number of threads.
std::vector<Route> routes(const Sources& sources);

// The same handlers as some of `routes` have, at paths without /v1.
std::vector<Route> aliases(const std::vector<Route>& routes);

}  // namespace billow::api::llama

// /api/ps: the models that are loaded; ?prefixes=N adds the beginnings that each knows, the latest
// N. A model is listed as it was when it was loaded, whatever has become of the stored one. Any
// thread may call the handler.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "api/call.h"
#include "scheduler/scheduler.h"

namespace billow::api::ollama {

struct PsSource {
  std::function<scheduler::SchedulerState()> state;
  // Of a loaded model by its runner's key: the context that its latest request was given, in
  // tokens.
  std::function<size_t(const std::string& key)> context_length;
  // Of the same: the beginnings that it knows, Scheduler::prefixes.
  std::function<std::vector<scheduler::Prefix>(const std::string& key, const std::string& root,
                                               size_t n_max)>
      prefixes;
};

std::vector<Route> ps_routes(PsSource source);

}  // namespace billow::api::ollama

// /api/ps: lists the loaded models. ?prefixes=N adds the latest N cached prefixes of each model.
// The list shows a model as it was when it was loaded, even if the stored model has changed.
// Thread-safe.
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
  // Returns the context of the model's latest request, in tokens. `key` identifies its runner.
  std::function<size_t(const std::string& key)> context_length;
  // Returns the model's cached prefixes, as Scheduler::prefixes does.
  std::function<std::vector<scheduler::Prefix>(const std::string& key, const std::string& root,
                                               size_t n_max)>
      prefixes;
};

std::vector<Route> ps_routes(PsSource source);

}  // namespace billow::api::ollama

// Routes of llama-server and vLLM in addition to OpenAI's: /completion, /completions, /infill,
// /props, /slots, /apply-template, /tokenizer_info and /version, and some of OpenAI's without /v1.
// A request names its model by a field or by ?model=NAME. If the store has only one model, it is
// the default.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/call.h"
#include "api/catalog.h"
#include "api/generator.h"
#include "api/slot_files.h"
#include "api/slots.h"
#include "scheduler/scheduler.h"
#include "store/store.h"

namespace billow::api::llama {

struct Sources {
  Generator& generator;
  Catalog& catalog;
  const store::Store& store;
  std::function<scheduler::SchedulerState()> state;
  Slots& slots;
  SlotFiles& slot_files;
  // Scheduler::do_with_text()
  std::function<std::optional<scheduler::TextKv>(
      const std::string& key, scheduler::TextAction action, const scheduler::CachedText& text)>
      do_with_text;
  std::string version;     // of this server
  size_t max_context = 0;  // of any request; 0: the model's max
};

// Returns the model of a request, and names it in the log. Throws http::StatusError (404).
std::shared_ptr<const ServedModel> model_of(Catalog& catalog, Call& call, const std::string& name);

// REQUIRES: the objects in `sources` outlive the routes. Handlers are thread-safe.
std::vector<Route> routes(const Sources& sources);

// Returns copies of some of `routes` at paths without /v1.
std::vector<Route> aliases(const std::vector<Route>& routes);

}  // namespace billow::api::llama

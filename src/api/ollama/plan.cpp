#include "api/ollama/plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "api/field_rules.h"
#include "api/fields.h"
#include "api/ollama/errors.h"
#include "api/ollama/field_tables.h"
#include "api/ollama/generation.h"
#include "api/rendered_prompt.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/model_facts.h"

namespace billow::api::ollama {
namespace {

using http::StatusError;

bool is_loaded(const scheduler::SchedulerState& state, const std::string& key) {
  return std::ranges::any_of(state.models, [&](const scheduler::LoadedModel& loaded) {
    return loaded.model.key == key && loaded.model.phase == scheduler::Phase::kReady;
  });
}

Json memory_json(const scheduler::ModelCost& cost, const scheduler::SchedulerState& state) {
  const uint64_t total = scheduler::model_bytes(cost, 1);
  return {{"weights_bytes", cost.weight_bytes},
          {"scratch_bytes", cost.scratch_bytes},
          {"kv_bytes", cost.kv_bytes},
          {"total_bytes", total},
          {"budget_bytes", state.budget_bytes},
          {"free_bytes", state.budget_bytes - std::min(state.budget_bytes, state.granted_bytes)},
          {"fits", total <= state.budget_bytes}};
}

void plan(const PlanSource& source, Call& call) {
  const Fields fields = Fields::parse(call.take_body().text, "PlanRequest");
  const bool is_prompt = fields.has("prompt");
  report_unknown_fields(
      call, check_fields(fields.all(), (is_prompt ? kGenerateFields : kChatFields).rules));
  GenerationRequest request = is_prompt ? decode_generate(fields) : decode_chat(fields);
  const auto model = source.catalog.find(request.model, call.stop());
  if (!model) throw StatusError(404, "model '" + request.model + "' not found");
  Json json = {{"model", model->name}};
  const scheduler::SchedulerState state = source.state();
  json["loaded"] = is_loaded(state, model->key);
  call.set_model(model->name);
  scheduler::ModelCost cost = scheduler::cost_of(model->facts(), 0);
  if (is_prompt || !request.messages.empty()) {
    request.render_only = true;
    RenderedPrompt prompt(call);
    source.generator.run(request, prompt, call.stop(), call.trace());
    const Sizing& sizing = prompt.sizing();
    cost = sizing.cost;
    json["prompt_tokens"] = sizing.n_prompt;
    json["prompt_tokens_full"] = sizing.n_prompt_full;
    json["context"] = sizing.context;
    json["max_context"] = sizing.max_context;
    json["reason"] = sizing.reason;
  }
  json["memory"] = memory_json(cost, state);
  respond_json(call, json);
}

}  // namespace

std::vector<Route> plan_routes(const PlanSource& source) {
  Route route;
  route.methods = {http::Method::kPost};
  route.pattern = "/api/plan";
  route.is_watched = true;  // the page plans while a user types
  route.handler = [source](Call& call) { plan(source, call); };
  return {std::move(route)};
}

}  // namespace billow::api::ollama

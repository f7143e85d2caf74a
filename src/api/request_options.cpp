#include "api/request_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/keep_alive.h"
#include "store/parameters.h"

namespace billow::api {
namespace {

using constraint::Grammar;
using constraint::GrammarKind;
using http::StatusError;

constexpr int64_t kMaxGpuLayers = 9999;  // far more than any model has

}  // namespace

Options options_of(const Json& object, int status) {
  if (!object.is_object()) return {};
  try {
    store::check_options(object);
  } catch (const Error& error) {
    throw StatusError(status, error.what());
  }
  Options options;
  options.sampling = scheduler::sampling_of(object);
  const auto stop = object.find("stop");
  if (stop != object.end() && stop->is_array()) {
    options.stop = stop->get<std::vector<std::string>>();
    std::erase(*options.stop, "");
  }
  const auto whole = [&](const char* name) -> std::optional<int64_t> {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    return scheduler::whole_number(*found);
  };
  options.num_predict = whole("num_predict");
  if (const auto num_ctx = whole("num_ctx"))
    options.num_ctx = static_cast<size_t>(std::max<int64_t>(0, *num_ctx));
  if (const auto max_draft = whole("draft_num_predict"); max_draft && *max_draft >= 0)
    options.max_draft = static_cast<size_t>(*max_draft);
  if (const auto num_gpu = whole("num_gpu"))
    options.num_gpu = static_cast<int>(std::clamp<int64_t>(*num_gpu, -1, kMaxGpuLayers));
  if (const auto engine = object.find("engine"); engine != object.end() && engine->is_string())
    options.engine = scheduler::find_engine(engine->get_ref<const std::string&>());
  return options;
}

Options options_of_text(const std::string& json) {
  return options_of(Json::parse(json, nullptr, false), 500);
}

Options overlaid(const Options& model, const Options& request) {
  return {.sampling = scheduler::overlaid(model.sampling, request.sampling),
          .stop = request.stop ? request.stop : model.stop,
          .num_predict = request.num_predict ? request.num_predict : model.num_predict,
          .num_ctx = request.num_ctx ? request.num_ctx : model.num_ctx,
          .max_draft = request.max_draft ? request.max_draft : model.max_draft,
          .engine = model.engine,
          .num_gpu = model.num_gpu};
}

std::optional<scheduler::Duration> keep_alive_of(const Json* value) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number()) return scheduler::keep_alive_from_seconds(value->get<double>());
  if (value->is_string()) {
    try {
      return scheduler::keep_alive_from_text(value->get<std::string>());
    } catch (const Error& error) {
      throw StatusError(400, error.what());
    }
  }
  const char* type = value->is_boolean()  ? "bool"
                     : value->is_object() ? "map[string]interface {}"
                                          : "[]interface {}";
  throw StatusError(400, std::string("Unsupported type: '") + type + "'");
}

std::optional<Grammar> format_of(const Json* value) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_string() && value->get_ref<const std::string&>().empty()) return std::nullopt;
  if (*value == "json") return Grammar{.kind = GrammarKind::kJsonObject};
  if (value->is_object()) return Grammar{.kind = GrammarKind::kJsonSchema, .text = value->dump()};
  throw StatusError(500, "invalid format: " + value->dump() +
                             "; expected \"json\" or a valid JSON Schema object");
}

}  // namespace billow::api

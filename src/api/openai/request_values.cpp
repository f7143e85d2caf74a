#include "api/openai/request_values.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/openai/errors.h"
#include "base/go_text.h"
#include "base/json.h"
#include "base/text.h"
#include "store/json_text.h"

namespace billow::api::openai {
namespace {

Json extensions(const Fields& fields) {
  Json options = Json::object();
  if (const Json* given = fields.object("options")) {
    for (const auto& [name, value] : given->items()) {
      if (!value.is_null()) options[name] = value;
    }
  }
  // Of whatever type: the check of all options has the words for a wrong one.
  if (const Json* num_ctx = fields.value("num_ctx")) options["num_ctx"] = *num_ctx;
  return options;
}

// A text or an array of them; what is neither says nothing.
void put_stop(Json& options, const Json* stop, TextRoute route) {
  if (stop == nullptr) return;
  if (stop->is_string()) {
    options["stop"] = Json::array({*stop});
    return;
  }
  if (!stop->is_array()) return;
  Json stops = Json::array();
  for (const Json& element : *stop) {
    if (element.is_string()) {
      stops.push_back(element);
    } else if (route == TextRoute::kCompletions) {
      refuse("invalid type for 'stop' field: " + std::string(go_type(&element)));
    }
  }
  options["stop"] = std::move(stops);
}

struct Effort {
  std::string_view name;
  bool thinks;
  const char* level;
};
constexpr std::array kEfforts{
    Effort{"none", false, ""},        Effort{"minimal", true, "low"}, Effort{"low", true, "low"},
    Effort{"medium", true, "medium"}, Effort{"high", true, "high"},   Effort{"max", true, "max"},
    Effort{"xhigh", true, "max"},     Effort{"ultra", true, "max"},
};

}  // namespace

Fields parse_body(std::string_view body, std::string_view type) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) refuse("EOF");
  return Fields::parse(body, type);
}

TextRequest decode_common(const Fields& fields) {
  TextRequest request;
  request.generation.model = fields.text("model");
  request.generation.keep_alive_json = keep_alive_json(fields);
  request.generation.render_only = fields.flag("_debug_render_only").value_or(false);
  request.stream = fields.flag("stream").value_or(false) && !request.generation.render_only;
  if (const auto stream_options = fields.fields("stream_options")) {
    request.include_usage = stream_options->flag("include_usage").value_or(false);
  }
  return request;
}

std::string sampling_options(const Fields& fields, TextRoute route) {
  Json options;
  options["temperature"] = 1.0;
  options["top_p"] = 1.0;
  options.update(extensions(fields));
  auto n_most = fields.integer("max_tokens");
  const auto n_most_by_new_name = fields.integer("max_completion_tokens");
  if (!n_most) n_most = n_most_by_new_name;
  if (n_most) options["num_predict"] = *n_most;
  if (const auto seed = fields.integer("seed")) options["seed"] = *seed;
  for (const char* name : {"temperature", "top_p", "frequency_penalty", "presence_penalty"}) {
    const auto value = fields.number(name);
    if (value) options[name] = *value;
  }
  if (route == TextRoute::kCompletions && fields.number("top_p") == 0.0) options["top_p"] = 1.0;
  put_stop(options, fields.value("stop"), route);
  return store::compact(options);
}

std::string extra_options(const Fields& fields) { return store::compact(extensions(fields)); }

std::string keep_alive_json(const Fields& fields) {
  const Json* value = fields.value("keep_alive");
  if (value == nullptr) return "";
  if (!value->is_string() && !value->is_number()) {
    refuse("Unsupported type: '" + std::string(go_type(value)) + "'");
  }
  return store::compact(*value);
}

std::string format_json(const Fields& fields) {
  const auto format = fields.fields("response_format");
  if (!format) return "";
  const std::string text = format->text("type");
  const std::string type = lower_case(trimmed(text));
  if (type == "json_object") return "\"json\"";
  if (type != "json_schema") return "";
  const auto schema = format->fields("json_schema");
  const Json* value = schema ? schema->value("schema") : nullptr;
  return value != nullptr ? store::compact(*value) : "";
}

int top_logprobs(const Fields& fields, std::string_view name) {
  const int64_t n = fields.integer(name).value_or(0);
  if (n < 0 || n > 20) refuse("top_logprobs must be between 0 and 20");
  return static_cast<int>(n);
}

Think think_of(const Fields& fields) {
  std::string effort;
  if (const auto reasoning = fields.fields("reasoning")) effort = reasoning->text("effort");
  if (effort.empty()) effort = fields.text("reasoning_effort");
  if (effort.empty()) return {};
  const auto* found = std::ranges::find(kEfforts, effort, &Effort::name);
  if (found == kEfforts.end()) {
    refuse(
        "invalid reasoning value: " + go_quoted(effort) +
        " (must be \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"ultra\", \"max\", or "
        "\"none\")");
  }
  return {.enabled = found->thinks, .level = found->level};
}

}  // namespace billow::api::openai

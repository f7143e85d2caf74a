#include "api/openai/request_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "api/cache_salt.h"
#include "api/choices.h"
#include "api/grammar_fields.h"
#include "api/openai/errors.h"
#include "api/openai/field_tables.h"
#include "api/openai/llama_rules.h"
#include "api/request_options.h"
#include "base/go_text.h"
#include "base/json.h"
#include "base/text.h"

namespace billow::api::openai {
namespace {

std::optional<int64_t> whole_number_of(std::string_view text) {
  int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Json extensions(const Fields& fields) {
  Json options = Json::object();
  if (const Json* given = fields.object("options")) {
    for (const auto& [name, value] : given->items()) {
      if (!value.is_null()) options[name] = value;
    }
  }
  // Accepts any type here: the check of all options reports a wrong type.
  if (const Json* num_ctx = fields.value("num_ctx")) options["num_ctx"] = *num_ctx;
  return options;
}

struct FieldOption {
  const char* field;
  const char* option;
};
// OpenAI's fields and those of vLLM and llama-server.
constexpr FieldOption kIntegers[] = {
    {"seed", "seed"},
    {"top_k", "top_k"},
    {"mirostat", "mirostat"},
    {"repeat_last_n", "repeat_last_n"},
};
constexpr FieldOption kNumbers[] = {
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"frequency_penalty", "frequency_penalty"},
    {"presence_penalty", "presence_penalty"},
    {"min_p", "min_p"},
    {"typical_p", "typical_p"},
    {"repetition_penalty", "repeat_penalty"},
    {"repeat_penalty", "repeat_penalty"},
    {"mirostat_tau", "mirostat_tau"},
    {"mirostat_eta", "mirostat_eta"},
};

// Parses {"TOKEN":BIAS}, and llama-server's [[TOKEN,BIAS]]. A bias of false bans the token.
std::vector<scheduler::LogitBias> logit_bias_of(const Fields& fields) {
  constexpr const char* kForm =
      "field \"logit_bias\" must be an object of token ids and numbers, or an array of [id, "
      "number]";
  const Json* given = fields.value("logit_bias");
  std::vector<scheduler::LogitBias> biases;
  if (given == nullptr) return biases;
  const auto add = [&](std::optional<int64_t> token, const Json& bias) {
    const bool is_ban = bias.is_boolean() && !bias.get<bool>();
    if (!token || *token < 0 || *token > INT32_MAX || !(bias.is_number() || is_ban)) refuse(kForm);
    auto& made = biases.emplace_back();
    made.token = static_cast<int32_t>(*token);
    if (!is_ban) made.bias = bias.get<float>();
    if (made.bias && !std::isfinite(*made.bias)) refuse(kForm);
  };
  if (given->is_object()) {
    for (const auto& [name, bias] : given->items()) add(whole_number_of(name), bias);
  } else if (given->is_array()) {
    for (const Json& pair : *given) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer()) refuse(kForm);
      add(scheduler::whole_number(pair[0]), pair[1]);
    }
  } else {
    refuse(kForm);
  }
  return biases;
}

// Sets a text or an array of texts. Ignores other types. Without a text that is not empty, the stop
// strings of the model remain.
void put_stop(Json& options, const Json* stop, TextRoute route) {
  if (stop == nullptr || !(stop->is_string() || stop->is_array())) return;
  Json stops = Json::array();
  for (const Json& element : stop->is_string() ? Json::array({*stop}) : *stop) {
    if (element.is_string()) {
      if (!element.get_ref<const std::string&>().empty()) stops.push_back(element);
    } else if (route == TextRoute::kCompletions) {
      refuse("invalid type for 'stop' field: " + std::string(go_type(&element)));
    }
  }
  if (!stops.empty()) options["stop"] = std::move(stops);
}

// Returns `options`, overridden by what the request sets.
Options options_over(Json options, const Fields& fields, TextRoute route) {
  options.update(extensions(fields));
  std::optional<int64_t> n_max;
  for (const char* name : {"n_predict", "max_completion_tokens", "max_tokens"})
    if (const auto value = fields.integer(name)) n_max = value;
  if (n_max) options["num_predict"] = *n_max;
  for (const auto& [field, option] : kIntegers)
    if (const auto value = fields.integer(field)) options[option] = *value;
  for (const auto& [field, option] : kNumbers)
    if (const auto value = fields.number(field)) options[option] = *value;
  put_stop(options, fields.value("stop"), route);
  Options made = options_of(options);
  made.sampling.logit_bias = logit_bias_of(fields);
  return made;
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

// The members of chat_template_kwargs that have their effect. Templates see no others.
constexpr std::array<std::string_view, 3> kTemplateArguments = {"enable_thinking", "thinking",
                                                                "reasoning_effort"};

// Refuses a member, unless it is null or a flag that is not set.
void refuse_member(std::string_view object, const std::string& name, const Json& value,
                   std::string_view note) {
  if (value.is_null() || (value.is_boolean() && !value.get<bool>())) return;
  refuse("field \"" + std::string(object) + "." + name +
         "\" is not supported: " + std::string(note));
}

void check_template_arguments(const Fields& arguments) {
  for (const auto& [name, value] : arguments.all().items()) {
    if (std::ranges::find(kTemplateArguments, lower_case(name)) == kTemplateArguments.end())
      refuse_member("chat_template_kwargs", name, value,
                    "make a model with a TEMPLATE that sets it");
  }
}

void check_reasoning(const Fields& reasoning) {
  for (const auto& [name, value] : reasoning.all().items()) {
    const std::string known = lower_case(name);
    if (known == "exclude") refuse_member("reasoning", name, value, "thinking is always shown");
    if (known == "max_tokens") refuse_member("reasoning", name, value, kNoBudget);
  }
}

}  // namespace

Fields parse_body(std::string_view body, std::string_view type) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) refuse("EOF");
  return Fields::parse(body, type);
}

TextRequest decode_common(const Fields& fields, TextRoute route) {
  TextRequest request;
  const FieldTable& table = route == TextRoute::kChat ? kChatFields : kCompletionFields;
  request.unknown_fields = check_fields(fields.all(), table.rules);
  GenerationRequest& generation = request.generations.emplace_back();
  generation.model = fields.text("model");
  generation.options = sampling_options(fields, route);
  generation.grammar = grammar_of(fields);
  generation.keep_alive = keep_alive_of(fields.value("keep_alive"));
  generation.cache_salt = cache_salt_of(fields);
  generation.ignore_eos = fields.flag("ignore_eos").value_or(false);
  generation.slot = slot_of(fields);
  generation.render_only = fields.flag("_debug_render_only").value_or(false);
  request.n = choices_of(fields, "n");
  request.stream = fields.flag("stream").value_or(false) && !generation.render_only;
  if (const auto stream_options = fields.fields("stream_options")) {
    request.include_usage = stream_options->flag("include_usage").value_or(false);
  }
  return request;
}

std::optional<int64_t> slot_of(const Fields& fields) {
  const std::optional<int64_t> id = fields.integer("id_slot");
  return id == -1 ? std::nullopt : id;
}

size_t choices_of(const Fields& fields, std::string_view name) {
  const int64_t n = fields.integer(name).value_or(1);
  if (n < 1 || n > static_cast<int64_t>(kMaxChoices)) {
    refuse("field \"" + std::string(name) + "\" must be an integer from 1 to " +
           std::to_string(kMaxChoices));
  }
  return static_cast<size_t>(n);
}

Options sampling_options(const Fields& fields, TextRoute route) {
  Json options;
  options["temperature"] = 1.0;
  options["top_p"] = 1.0;
  Options made = options_over(std::move(options), fields, route);
  // As in Ollama.
  if (route == TextRoute::kCompletions && fields.number("top_p") == 0.0) made.sampling.top_p = 1.0;
  return made;
}

Options given_options(const Fields& fields) {
  return options_over(Json::object(), fields, TextRoute::kCompletions);
}

Options extra_options(const Fields& fields) { return options_of(extensions(fields)); }

int top_logprobs(const Fields& fields, std::string_view name) {
  const int64_t n = fields.integer(name).value_or(0);
  if (n < 0 || n > 20) refuse("top_logprobs must be between 0 and 20");
  return static_cast<int>(n);
}

Think think_of(const Fields& fields) {
  std::string effort;
  const auto arguments = fields.fields("chat_template_kwargs");
  if (arguments) check_template_arguments(*arguments);
  if (arguments) effort = arguments->text("reasoning_effort");
  const auto reasoning = fields.fields("reasoning");
  if (reasoning) check_reasoning(*reasoning);
  const auto reasons = reasoning ? reasoning->flag("enabled") : std::nullopt;
  if (reasons == false) return {.enabled = false};
  if (reasoning && reasoning->has("effort")) effort = reasoning->text("effort");
  if (effort.empty()) effort = fields.text("reasoning_effort");
  if (effort.empty() && reasons) return {.enabled = reasons};
  if (effort.empty() && arguments) {
    for (const char* name : {"enable_thinking", "thinking"})
      if (const auto enabled = arguments->flag(name)) return {.enabled = enabled};
  }
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

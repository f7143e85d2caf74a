#include "api/openai/responses_codec.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "api/cache_salt.h"
#include "api/field_rules.h"
#include "api/fields.h"
#include "api/grammar_fields.h"
#include "api/openai/errors.h"
#include "api/openai/field_tables.h"
#include "api/openai/request_values.h"
#include "api/openai/response_items.h"
#include "api/request_options.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

// Replaces the references in a request's items by the items from the store.
Json resolved(Json items, ResponseStore& store) {
  for (Json& item : items) {
    if (item["type"] != "item_reference") continue;
    const std::string id = item["id"].get<std::string>();
    const auto found = store.find_item(id);
    if (!found)
      refuse("item \"" + id + "\" not found: it was never stored, or is no longer stored");
    item = Json::parse(found->json);
  }
  return items;
}

ResponseItems items_before(const Fields& fields, ResponseStore& store) {
  const std::string id = fields.text("previous_response_id");
  if (id.empty()) return {};
  const auto found = store.find(id);
  if (!found)
    refuse("response \"" + id + "\" not found: it was never stored, or is no longer stored");
  return found->items;
}

std::vector<Message> messages_of(const ResponseRequest& request, const std::string& instructions) {
  Json all = Json::array();
  for (const auto& item : request.before) all.push_back(Json::parse(item->json));
  for (const Json& item : request.input) all.push_back(item);
  return messages_of_items(all, instructions);
}

std::optional<constraint::Grammar> grammar_of_text(const Fields& fields) {
  const auto text = fields.fields("text");
  const Json* format = text ? text->object("format") : nullptr;
  if (format == nullptr) return std::nullopt;
  try {
    return grammar_of(
        Fields::parse(Json{{"response_format", *format}}.dump(), "ResponsesRequest.text"));
  } catch (const http::StatusError& error) {
    constexpr std::string_view kOther = "response_format";
    std::string why = error.what();
    if (const size_t at = why.find(kOther); at != why.npos)
      why.replace(at, kOther.size(), "text.format");
    throw http::StatusError(error.status(), why);
  }
}

// A model that can think does so by default. An effort only sets the level, except "none".
Think think_of_response(const Fields& fields) {
  Think think = think_of(fields);
  if (think.enabled == true) think.enabled.reset();
  return think;
}

// Returns true for "auto". With the default, "disabled", a conversation that is too long is
// refused.
bool truncates(const Fields& fields) {
  const std::string truncation = fields.text("truncation");
  if (!truncation.empty() && truncation != "auto" && truncation != "disabled")
    refuse("field \"truncation\" must be \"auto\" or \"disabled\", not \"" + truncation + "\"");
  return truncation == "auto";
}

bool includes(const Fields& fields, const char* what) {
  const std::vector<std::string> all = fields.texts("include");
  return std::ranges::find(all, what) != all.end();
}

Options options_of_response(const Fields& fields) {
  Options options = sampling_options(fields, TextRoute::kChat);
  if (const auto n = fields.integer("max_output_tokens")) options.num_predict = n;
  return options;
}

// A field that the answer repeats, and its default.
struct Echo {
  const char* name;
  const char* unless_given;  // JSON
};
constexpr std::array kEchoes{
    Echo{"instructions", "null"},
    Echo{"max_output_tokens", "null"},
    Echo{"max_tool_calls", "null"},
    Echo{"model", "null"},
    Echo{"output", "[]"},  // reserves its position
    Echo{"parallel_tool_calls", "true"},
    Echo{"previous_response_id", "null"},
    Echo{"prompt_cache_key", "null"},
    Echo{"reasoning", R"({"effort":null,"summary":null})"},
    Echo{"safety_identifier", "null"},
    Echo{"service_tier", "\"default\""},
    Echo{"store", "true"},
    Echo{"temperature", "1.0"},
    Echo{"text", R"({"format":{"type":"text"}})"},
    Echo{"tool_choice", "\"auto\""},
    Echo{"tools", "[]"},
    Echo{"top_logprobs", "0"},
    Echo{"top_p", "1.0"},
    Echo{"truncation", "\"disabled\""},
    Echo{"usage", "null"},
    Echo{"user", "null"},
    Echo{"metadata", "{}"},
};

Json echo_of(const Fields& fields) {
  Json echo;
  for (const Echo& one : kEchoes) {
    const Json* given = fields.value(one.name);
    const bool is_ours =
        std::string_view(one.name) == "output" || std::string_view(one.name) == "usage";
    echo[one.name] = given == nullptr || is_ours ? Json::parse(one.unless_given) : *given;
  }
  return echo;
}

}  // namespace

ResponseRequest decode_response(std::string_view body, ResponseStore& store) {
  const Fields fields = parse_body(body, "ResponsesRequest");
  ResponseRequest request;
  request.unknown_fields = check_fields(fields.all(), kResponseFields.rules);
  GenerationRequest& generation = request.generation;
  generation.kind = GenerationKind::kChat;
  generation.model = fields.text("model");
  if (generation.model.empty()) refuse("model is required");
  request.before = items_before(fields, store);
  request.input = resolved(items_of_input(fields), store);
  if (request.input.empty() && request.before.empty()) refuse("input is required");
  generation.messages = messages_of(request, fields.text("instructions"));
  ResponseTools tools = decode_response_tools(fields);
  generation.tools = std::move(tools.tools);
  generation.tool_choice = std::move(tools.choice);
  request.shapes = std::move(tools.shapes);
  request.left_out = std::move(tools.left_out);
  generation.options = options_of_response(fields);
  generation.grammar = grammar_of_text(fields);
  generation.think = think_of_response(fields);
  generation.truncate = truncates(fields);
  generation.keep_alive = keep_alive_of(fields.value("keep_alive"));
  generation.cache_salt = cache_salt_of(fields);
  generation.top_logprobs = top_logprobs(fields, "top_logprobs");
  generation.logprobs =
      includes(fields, "message.output_text.logprobs") || generation.top_logprobs > 0;
  request.shows_logprobs = generation.logprobs;
  const auto reasoning = fields.fields("reasoning");
  request.shows_summary =
      reasoning && (reasoning->has("summary") || reasoning->has("generate_summary"));
  request.stream = fields.flag("stream").value_or(false);
  request.stores = fields.flag("store").value_or(true);
  request.echo = echo_of(fields);
  return request;
}

}  // namespace billow::api::openai

#include "cli/client/generate_work.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "api/json_reader.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/client/show_text.h"
#include "cli/client/vector_recipe.h"
#include "store/digest.h"

namespace billow::cli {
namespace {

using SortedJson = nlohmann::json;  // names in alphabetical order

constexpr int kAttempts = 3;
constexpr std::chrono::milliseconds kPause{500};

// Fields of the APIs that a row cannot have.
constexpr std::array<std::string_view, 11> kNotInRows = {
    "model",    "stream",       "keep_alive",  "template",           "context", "truncate", "shift",
    "logprobs", "top_logprobs", "live_events", "_debug_render_only",
};
// Fields that a row may have, and the kind of rows.
enum class RowKind : uint8_t { kPrompt = 1, kMessages = 2, kBoth = 3 };
struct RowField {
  std::string_view name;
  RowKind kind;
};
constexpr RowField kFields[] = {
    {"format", RowKind::kBoth},   {"think", RowKind::kBoth}, {"tools", RowKind::kMessages},
    {"images", RowKind::kPrompt}, {"raw", RowKind::kPrompt}, {"suffix", RowKind::kPrompt},
};

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A row that has no request.
class RowFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns the name of the field with the prompt or the messages.
std::string content_field(const Json& row, const std::string& wanted) {
  if (!wanted.empty()) {
    if (row.contains(wanted)) return wanted;
    throw RowFault("it has no field \"" + wanted + "\"");
  }
  const bool has_prompt = row.contains("prompt");
  const bool has_messages = row.contains("messages");
  if (has_prompt && has_messages) throw RowFault("it has both \"prompt\" and \"messages\"");
  if (!has_prompt && !has_messages) throw RowFault("it has neither \"prompt\" nor \"messages\"");
  return has_prompt ? "prompt" : "messages";
}

Json options_of(const GenerateRecipe& recipe, const Json& row) {
  Json options = Json::parse(recipe.options);
  const auto own = row.find("options");
  if (own == row.end() || own->is_null()) return options;
  if (!own->is_object()) throw RowFault("\"options\" is not an object");
  for (const auto& [name, value] : own->items()) options[name] = value;
  return options;
}

std::string system_of(const GenerateRecipe& recipe, const Json& row) {
  const auto own = row.find("system");
  if (own == row.end() || own->is_null()) return recipe.system;
  if (!own->is_string()) throw RowFault("\"system\" is not a text");
  return own->get<std::string>();
}

void add_fields(const Json& row, RowKind kind, Json& body) {
  for (const std::string_view name : kNotInRows)
    if (row.contains(name))
      throw RowFault("the field \"" + std::string(name) + "\" is not possible in a row");
  for (const RowField& field : kFields) {
    const auto at = row.find(field.name);
    if (at == row.end() || at->is_null()) continue;
    if ((static_cast<int>(field.kind) & static_cast<int>(kind)) == 0) {
      throw RowFault("the field \"" + std::string(field.name) + "\" is not possible with " +
                     (kind == RowKind::kPrompt ? "a prompt" : "messages"));
    }
    body[std::string(field.name)] = *at;
  }
}

void make_request(const GenerateWorkOptions& options, const Json& row, GenerateRequest& request) {
  const GenerateRecipe& recipe = options.recipe;
  const Json& content = row[content_field(row, options.field)];
  Json body = {{"model", options.model}, {"stream", false}};
  const std::string system = system_of(recipe, row);
  if (Json wanted = options_of(recipe, row); !wanted.empty()) body["options"] = std::move(wanted);
  if (!recipe.format.empty()) body["format"] = Json::parse(recipe.format);
  if (recipe.think) body["think"] = *recipe.think;
  if (content.is_string()) {
    request.path = "/api/generate";
    body["prompt"] = content;
    if (!system.empty()) body["system"] = system;
    if (recipe.raw) body["raw"] = true;
    add_fields(row, RowKind::kPrompt, body);
  } else if (content.is_array()) {
    if (recipe.raw) throw RowFault("--raw is not possible with messages");
    request.path = "/api/chat";
    Json messages = content;
    if (!system.empty())
      messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system}});
    body["messages"] = std::move(messages);
    add_fields(row, RowKind::kMessages, body);
  } else {
    throw RowFault("the prompt is neither a text nor a list of messages");
  }
  request.body = dumped(body);
}

Json line_head(const GenerateRequest& request, const GenerateBatch& batch) {
  Json line = {{"index", batch.row}};
  if (!request.id.empty()) line["id"] = Json::parse(request.id);
  return line;
}

// Returns whether the host can answer anything.
bool answers_at_all(const GenerateWorkOptions& options, BulkCaller& caller) {
  const Json body = {{"model", options.model},
                     {"prompt", "a"},
                     {"stream", false},
                     {"options", {{"num_predict", 1}}}};
  return caller.post("/api/generate", dumped(body)).status == 200;
}

}  // namespace

std::string canonical_json(const GenerateRecipe& recipe) {
  SortedJson json = {
      {"format", recipe.format.empty() ? SortedJson() : SortedJson::parse(recipe.format)},
      {"model_text", recipe.model_text},
      {"op", "generate"},
      {"options", SortedJson::parse(recipe.options)},
      {"system", recipe.system},
      {"weights", recipe.weights}};
  if (recipe.raw) json["raw"] = true;
  if (recipe.think) json["think"] = *recipe.think;
  return json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

std::string fingerprint(const GenerateRecipe& recipe) {
  return store::digest_of(canonical_json(recipe)).text();
}

std::string shown_text(const Json& shown) {
  SortedJson text = {{"parameters", text_field(shown, "parameters")},
                     {"system", text_field(shown, "system")},
                     {"template", text_field(shown, "template")}};
  const auto messages = shown.find("messages");
  if (messages != shown.end() && messages->is_array() && !messages->empty())
    text["messages"] = SortedJson::parse(dumped(*messages));
  std::istringstream lines(text_field(shown, "modelfile"));
  bool has_weights = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("RENDERER ") || line.starts_with("PARSER "))
      text["formats"].push_back(line);
    if (!line.starts_with("FROM ") || !std::exchange(has_weights, true)) continue;
    if (const auto digest = digest_in(line)) text["projectors"].push_back(*digest);
  }
  return store::digest_of(text.dump(-1, ' ', false, SortedJson::error_handler_t::replace)).text();
}

void set_digests(ApiClient& client, const std::string& model, GenerateRecipe& recipe) {
  const Json shown = client.post("/api/show", {{"model", model}});
  auto weights = shown_weights(shown);
  if (!weights) {
    throw Error(ErrorCode::kUnsupported,
                "the server does not report the digest of the weights of '" + model + "'");
  }
  recipe.weights = *std::move(weights);
  recipe.model_text = shown_text(shown);
}

GenerateRequest generate_request(const GenerateWorkOptions& options, const std::string& row) {
  GenerateRequest request;
  try {
    if (!options.is_json) {
      const std::string field = options.field.empty() ? "prompt" : options.field;
      make_request(options, {{field, row}}, request);
      return request;
    }
    const std::optional<Json> object = api::read_inner_json(row);
    if (!object || !object->is_object()) throw RowFault("it is not a JSON object");
    if (const auto id = object->find("id"); id != object->end() && !id->is_null()) {
      if (!id->is_string() && !id->is_number()) throw RowFault("\"id\" is no text and no number");
      request.id = dumped(*id);
    }
    make_request(options, *object, request);
  } catch (const RowFault& fault) {
    request.error = fault.what();
  }
  return request;
}

void set_error(const std::string& why, const GenerateRequest& request, GenerateBatch& batch) {
  batch.error = why.empty() ? "the server gave no reason" : why;
  Json line = line_head(request, batch);
  line["error"] = batch.error;
  batch.line = dumped(line) + "\n";
}

void read_generate_answer(const std::string& body, const GenerateRequest& request,
                          GenerateBatch& batch) {
  const Json answer = Json::parse(body, nullptr, false);
  if (!answer.is_object() || !answer.contains("done") || answer["done"] != true) fail_invalid();
  const bool is_chat = request.path == "/api/chat";
  if (is_chat && (!answer.contains("message") || !answer["message"].is_object())) fail_invalid();
  const Json& said = is_chat ? answer["message"] : answer;
  const char* text = is_chat ? "content" : "response";
  if (!said.contains(text) || !said[text].is_string()) fail_invalid();
  const std::string reason = text_field(answer, "done_reason");
  if (reason == "load")  // the server only loads the model
    return set_error(is_chat ? "there are no messages" : "the prompt is empty", request, batch);
  batch.n_prompt = count_field(answer, "prompt_eval_count");
  batch.n_generated = count_field(answer, "eval_count");
  Json line = line_head(request, batch);
  line["response"] = said[text];
  for (const char* more : {"thinking", "tool_calls"})
    if (said.contains(more)) line[more] = said[more];
  line["finish_reason"] = reason;
  line["prompt_tokens"] = batch.n_prompt;
  line["output_tokens"] = batch.n_generated;
  batch.line = dumped(line) + "\n";
}

void answer_row(const GenerateWorkOptions& options, BulkCaller& caller, GenerateBatch& batch) {
  const GenerateRequest request = generate_request(options, batch.text);
  if (!request.error.empty()) return set_error(request.error, request, batch);
  http::Response response;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    response = caller.post(request.path, request.body);
    if (response.status < 400) return read_generate_answer(response.body, request, batch);
    if (response.status < 500 || response.status == 503) break;
    if (attempt < kAttempts && !caller.wait(attempt * kPause)) break;
  }
  const bool is_row =
      response.status >= 500 && response.status != 503 && answers_at_all(options, caller);
  if (!is_row) check_status(response);
  set_error(said_by(response.body), request, batch);
}

}  // namespace billow::cli

#include "api/ollama/generation.h"

#include <chrono>
#include <utility>

#include "api/cache_salt.h"
#include "api/json_reader.h"
#include "api/json_text.h"
#include "api/ollama/errors.h"
#include "api/ollama/field_tables.h"
#include "api/request_options.h"
#include "api/tool_fields.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"
#include "scheduler/runner.h"

namespace billow::api::ollama {
namespace {

using http::StatusError;
using std::chrono::nanoseconds;

Think think_of(const Fields& fields) {
  constexpr std::string_view kLevels[] = {"high", "medium", "low", "max"};
  constexpr const char* kAllowed = "(\"high\", \"medium\", \"low\", \"max\", true, or false)";
  const Json* value = fields.value("think");
  if (value == nullptr) return {};
  if (value->is_boolean()) return {.enabled = value->get<bool>()};
  if (!value->is_string())
    throw StatusError(400, std::string("think must be a boolean or string ") + kAllowed);
  const auto level = value->get<std::string>();
  for (const std::string_view known : kLevels)
    if (level == known) return {.enabled = true, .level = level};
  throw StatusError(400, "invalid think value: \"" + level +
                             "\" (must be \"high\", \"medium\", \"low\", \"max\", true, or false)");
}

void read_options(const Json& options, GenerationRequest& request) {
  try {
    request.options = options_of(options);
  } catch (const StatusError& error) {
    request.wrong_options = error.what();
  }
}

// Parses the fields that both routes share.
void decode_shared(const Fields& fields, GenerationRequest& request) {
  request.model = fields.text("model");
  const Json* options = fields.object("options");
  if (options != nullptr) read_options(*options, request);
  request.grammar = format_of(fields.value("format"));
  request.keep_alive = keep_alive_of(fields.value("keep_alive"));
  request.cache_salt = cache_salt_of(fields);
  request.whole_calls = true;
  request.think = think_of(fields);
  request.truncate = fields.flag("truncate").value_or(true);
  request.shift = fields.flag("shift");
  request.logprobs = fields.flag("logprobs").value_or(false);
  const int64_t top = fields.integer("top_logprobs").value_or(0);
  if (top < 0 || top > 20) throw StatusError(400, "top_logprobs must be between 0 and 20");
  request.top_logprobs = static_cast<int>(top);
  request.render_only = fields.flag("_debug_render_only").value_or(false);
  request.live_events = fields.flag("live_events").value_or(false);
}

Message message_of(const Fields& fields) {
  Message message{.role = lower_case(fields.text("role")),
                  .tool_name = fields.text("tool_name"),
                  .tool_call_id = fields.text("tool_call_id")};
  const auto add_text = [&]<class P>(P part) {
    if (!part.text.empty()) message.parts.emplace_back(std::move(part));
  };
  add_text(ThinkingPart{fields.text("thinking")});
  for (std::string& image : images_of(fields))
    message.parts.emplace_back(ImagePart{std::move(image)});
  add_text(TextPart{fields.text("content")});
  for (ToolCall& call : tool_calls_of(fields)) message.parts.emplace_back(std::move(call));
  return message;
}

Json logprob_json(const Logprob& entry, bool with_top) {
  Json bytes = Json::array();
  for (const char byte : entry.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  Json json = {{"token", entry.token}, {"logprob", entry.logprob}, {"bytes", std::move(bytes)}};
  if (!with_top || entry.top.empty()) return json;
  for (const Logprob& other : entry.top) json["top_logprobs"].push_back(logprob_json(other, false));
  return json;
}

Json calls_json(const std::vector<WrittenCall>& calls, size_t first) {
  Json json = Json::array();
  for (const WrittenCall& call : calls) {
    json.push_back({{"id", call.id},
                    {"function",
                     {{"index", first++},
                      {"name", call.name},
                      {"arguments", read_inner_json(call.arguments).value_or(Json::object())}}}});
  }
  return json;
}

// Returns the first fields of an answer or of a part. `first_call` is the index of its first call.
Json head_json(GenerationKind kind, const std::string& model, const std::string& created_at,
               const WholeAnswer& part, size_t first_call) {
  Json json = {{"model", model}, {"created_at", created_at}};
  if (kind == GenerationKind::kPrompt) {
    json["response"] = part.text;
    if (!part.thinking.empty()) json["thinking"] = part.thinking;
    return json;
  }
  Json message = {{"role", "assistant"}, {"content", part.text}};
  if (!part.thinking.empty()) message["thinking"] = part.thinking;
  if (!part.calls.empty()) message["tool_calls"] = calls_json(part.calls, first_call);
  json["message"] = std::move(message);
  return json;
}

void add_logprobs(Json& json, const WholeAnswer& part) {
  for (const Logprob& entry : part.logprobs) json["logprobs"].push_back(logprob_json(entry, true));
}

void add_notices(Json& json, const WholeAnswer& part) {
  for (const std::string& notice : part.notices)
    json["events"].push_back(Json::parse(notice, nullptr, false));
}

void add_count(Json& json, const char* name, int64_t count) {
  if (count != 0) json[name] = count;
}

// Returns the same as to_text(delta_json(...)) for a part with only text and thinking, as most
// parts are.
std::string plain_line(GenerationKind kind, const std::string& model, const std::string& created_at,
                       const WholeAnswer& part) {
  const bool is_chat = kind == GenerationKind::kChat;
  std::string line = R"({"model":)";
  append_string(line, model);
  line.append(R"(,"created_at":")").append(created_at);
  line += is_chat ? R"(","message":{"role":"assistant","content":)" : R"(","response":)";
  append_string(line, part.text);
  if (!part.thinking.empty()) append_string(line += R"(,"thinking":)", part.thinking);
  return line += is_chat ? "},\"done\":false}\n" : ",\"done\":false}\n";
}

class NativeSink : public Sink {
 public:
  NativeSink(Call& call, const GenerationRequest& request, bool stream)
      : call_(call), kind_(request.kind), model_(request.model), stream_(stream) {}

  bool has_begun() const { return has_begun_; }

  void found(const std::string& model) override { call_.set_model(model); }

  void sized(const Sizing& sizing) override { report_sizing(call_, sizing); }

  bool delta(const Delta& delta) override {
    all_.add(delta);
    if (!stream_) return !call_.stop().stop_requested();
    // take() keeps a call that is still incomplete.
    const WholeAnswer part = all_.take();
    if (part.empty()) return true;
    const size_t first_call = std::exchange(n_calls_, n_calls_ + part.calls.size());
    return write_line(delta_line(kind_, model_, utc_now_text(), part, first_call));
  }

  bool holds_back() const override { return !stream_; }
  void restart(size_t) override { all_.clear(); }

  bool end(const Ending& ending) override {
    const bool is_answer = ending.done_reason != "load" && ending.done_reason != "unload";
    const Json json = end_json(kind_, model_, utc_now_text(), all_.whole(), ending);
    if (!stream_ || (!is_answer && !has_begun_)) return respond_json(call_, json);
    return write(json);
  }

  bool rendered(const std::string& prompt, size_t n_images) override {
    Json json = head_json(kind_, model_, utc_now_text(), {}, 0);
    json["done"] = false;
    json["_debug_info"] = {{"rendered_template", prompt}};
    add_count(json["_debug_info"], "image_count", static_cast<int64_t>(n_images));
    return respond_json(call_, json);
  }

  void still_working() override {
    if (stream_ && !has_begun_ && std::chrono::steady_clock::now() - since_ > kHeadTimeout) {
      has_begun_ = true;
      call_.begin_stream(200, kNdjsonType);
    }
  }

  void fail(const std::string& text) { write({{"error", text}}); }

 private:
  bool write(const Json& json) { return write_line(to_text(json) + "\n"); }

  bool write_line(const std::string& line) {
    return std::exchange(has_begun_, true) ? call_.write(line)
                                           : call_.begin_stream(200, kNdjsonType, line);
  }

  Call& call_;
  const GenerationKind kind_;
  const std::string model_;  // as the client wrote it
  const bool stream_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  bool has_begun_ = false;
  AnswerParts all_;     // not sent yet
  size_t n_calls_ = 0;  // calls sent so far
};

struct ParsedRequest {
  GenerationRequest request;
  bool stream = true;
  std::vector<std::string> unknown_fields{};
};

ParsedRequest parse_request(const Fields& fields, const FieldTable& table,
                            GenerationRequest (*decode)(const Fields&)) {
  std::vector<std::string> unknown = check_fields(fields.all(), table.rules);
  if (const Json* options = fields.object("options")) {
    for (const std::string& name : check_fields(*options, kOptionFields.rules))
      unknown.push_back("options." + name);
  }
  const bool stream = fields.flag("stream").value_or(true);
  return {decode(fields), stream, std::move(unknown)};
}

void handle(Call& call, Generator& generator, const GenerationRequest& request, bool stream) {
  NativeSink sink(call, request, stream);
  // Ends a stream with the error. Without a stream, the caller answers.
  const auto fail = [&](int status, const char* what) {
    if (!sink.has_begun()) throw;
    call.fail(status, what);
    sink.fail(what);
  };
  try {
    generator.run(request, sink, call.stop(), call.trace());
  } catch (const scheduler::Cancelled& cancelled) {
    if (!sink.has_begun()) throw StatusError(499, cancelled.what());
    if (call.is_cancelled_by_server()) {
      call.fail(503, std::string(http::kShuttingDown));
      sink.fail(std::string(http::kShuttingDown));
    }
  } catch (const http::StatusError& error) {
    fail(error.status(), error.what());
  } catch (const Error& error) {
    fail(http::status_of(error.code()), error.what());
  } catch (const std::exception& error) {
    fail(500, error.what());
  }
  if (sink.has_begun()) call.finish();
}

}  // namespace

std::vector<std::string> images_of(const Fields& fields) {
  std::vector<std::string> images;
  for (const std::string& text : fields.texts("images")) {
    size_t fault = 0;
    std::optional<std::string> bytes = base64_decoded(text, &fault);
    if (!bytes)
      throw StatusError(400, "illegal base64 data at input byte " + std::to_string(fault));
    images.push_back(std::move(*bytes));
  }
  return images;
}

GenerationRequest decode_generate(const Fields& fields) {
  GenerationRequest request{.kind = GenerationKind::kPrompt, .model = {}};
  decode_shared(fields, request);
  request.prompt = fields.text("prompt");
  request.suffix = fields.text("suffix");
  const std::string system = fields.text("system");
  if (!system.empty()) request.system = system;
  const std::string own = fields.text("template");
  if (!own.empty()) request.template_text = own;
  request.context = fields.integers("context");
  request.raw = fields.flag("raw").value_or(false);
  request.images = images_of(fields);
  if (request.raw && (request.template_text || request.system || !request.context.empty()))
    throw StatusError(400, "raw mode does not support template, system, or context");
  return request;
}

GenerationRequest decode_chat(const Fields& fields) {
  GenerationRequest request{.kind = GenerationKind::kChat, .model = {}};
  decode_shared(fields, request);
  for (const Fields& message : fields.objects("messages"))
    request.messages.push_back(message_of(message));
  request.tools = tools_of(fields);
  if (request.model.empty()) throw StatusError(400, "model is required");
  return request;
}

Json delta_json(GenerationKind kind, const std::string& model, const std::string& created_at,
                const WholeAnswer& part, size_t first_call) {
  Json json = head_json(kind, model, created_at, part, first_call);
  json["done"] = false;
  add_logprobs(json, part);
  add_notices(json, part);
  return json;
}

Json end_json(GenerationKind kind, const std::string& model, const std::string& created_at,
              const WholeAnswer& all, const Ending& ending) {
  Json json = head_json(kind, model, created_at, all, 0);
  json["done"] = true;
  // Ollama calls it a stop if the text of one token was repeated too often.
  json["done_reason"] = ending.done_reason == "repeats" ? "stop" : ending.done_reason;
  if (kind == GenerationKind::kPrompt && !ending.context.empty()) json["context"] = ending.context;
  add_count(json, "total_duration", ending.total.count());
  add_count(json, "load_duration", ending.load.count());
  add_count(json, "prompt_eval_count", static_cast<int64_t>(ending.n_prompt));
  add_count(json, "prompt_cached_count", static_cast<int64_t>(ending.n_cached));
  add_count(json, "prompt_eval_duration", ending.prompted.count());
  add_count(json, "eval_count", static_cast<int64_t>(ending.n_generated));
  add_count(json, "eval_duration", ending.written.count());
  if (kind == GenerationKind::kPrompt && !all.calls.empty())
    json["tool_calls"] = calls_json(all.calls, 0);
  add_logprobs(json, all);
  add_notices(json, all);
  return json;
}

std::string delta_line(GenerationKind kind, const std::string& model, const std::string& created_at,
                       const WholeAnswer& part, size_t first_call) {
  const bool is_plain = part.calls.empty() && part.logprobs.empty() && part.notices.empty();
  if (is_plain) return plain_line(kind, model, created_at, part);
  return to_text(delta_json(kind, model, created_at, part, first_call)) + "\n";
}

std::vector<Route> generation_routes(Generator& generator) {
  std::vector<Route> routes;
  const auto add = [&](const char* pattern, const char* type, const FieldTable& table,
                       GenerationRequest (*decode)(const Fields&)) {
    Route& route = routes.emplace_back();
    route.methods = {http::Method::kPost};
    route.pattern = pattern;
    route.is_traced = true;
    route.handler = [&generator, type, &table, decode](Call& call) {
      // The full expression frees the body and the JSON before the answer begins.
      ParsedRequest parsed =
          parse_request(Fields::parse(call.take_body().text, type), table, decode);
      report_unknown_fields(call, parsed.unknown_fields);
      parsed.request.is_bulk = is_bulk(call.request());
      handle(call, generator, parsed.request, parsed.stream);
    };
  };
  add("/api/generate", "GenerateRequest", kGenerateFields, decode_generate);
  add("/api/chat", "ChatRequest", kChatFields, decode_chat);
  return routes;
}

}  // namespace billow::api::ollama

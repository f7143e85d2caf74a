#include "api/anthropic/messages_codec.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "api/anthropic/blocks.h"
#include "api/anthropic/errors.h"
#include "api/anthropic/field_tables.h"
#include "api/cache_salt.h"
#include "api/error_texts.h"
#include "api/fields.h"
#include "api/json_reader.h"
#include "api/request_options.h"
#include "base/json.h"
#include "http/sse.h"

namespace billow::api::anthropic {
namespace {

// This server does not sign thinking. Clients drop thinking without a signature, so they get this
// constant one.
constexpr const char* kSignature = "YmlsbG93";

// Requests.

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kEfforts{{
    {"low", "low"},
    {"medium", "medium"},
    {"high", "high"},
    {"xhigh", "max"},
    {"max", "max"},
}};
using Effort = std::pair<std::string_view, std::string_view>;

std::string level_of(const std::optional<Fields>& output) {
  const std::string effort = output ? output->text("effort") : "";
  if (effort.empty()) return "";
  const auto* found = std::ranges::find(kEfforts, effort, &Effort::first);
  if (found == kEfforts.end())
    refuse(
        "field \"output_config.effort\" must be \"low\", \"medium\", \"high\", \"xhigh\" or "
        "\"max\", not \"" +
        effort + "\"");
  return std::string(found->second);
}

constexpr std::array<std::string_view, 4> kThinkingTypes = {"enabled", "adaptive", "between_tools",
                                                            "disabled"};

// If the client asks for thinking, "enabled" stays unset: the model thinks if it can.
Think think_of(const std::optional<Fields>& thinking, const std::optional<Fields>& output) {
  const std::string type = thinking ? thinking->text("type") : "";
  if (!type.empty() && std::ranges::find(kThinkingTypes, type) == kThinkingTypes.end())
    refuse(
        "field \"thinking.type\" must be \"enabled\", \"adaptive\", \"between_tools\" or "
        "\"disabled\", not \"" +
        type + "\"");
  if (thinking) thinking->integer("budget_tokens");  // throws if it is not a number
  Think think{.enabled = std::nullopt, .level = level_of(output)};
  if (type == "disabled" || (type.empty() && think.level.empty())) think = {.enabled = false};
  return think;
}

std::optional<constraint::Grammar> grammar_of_format(const std::optional<Fields>& format,
                                                     const std::string& field) {
  if (!format) return std::nullopt;
  const std::string type = format->text("type");
  if (type != "json_schema")
    refuse("field \"" + field + ".type\" must be \"json_schema\", not \"" + type + "\"");
  const Json* schema = format->object("schema");
  if (schema == nullptr) refuse("field \"" + field + ".schema\" is missing");
  return constraint::Grammar{.kind = constraint::GrammarKind::kJsonSchema, .text = schema->dump()};
}

std::optional<constraint::Grammar> grammar_of(const Fields& request,
                                              const std::optional<Fields>& output) {
  const auto older = grammar_of_format(request.fields("output_format"), "output_format");
  const auto newer =
      output ? grammar_of_format(output->fields("format"), "output_config.format") : std::nullopt;
  if (older && newer && *older != *newer)
    refuse(
        "fields \"output_config.format\" and \"output_format\" ask for different answers; "
        "remove one of them");
  return newer ? newer : older;
}

MessagesRequest decode(const Fields& fields, const FieldTable& table) {
  MessagesRequest request;
  request.unknown_fields = check_fields(fields.all(), table.rules);
  GenerationRequest& generation = request.generation;
  generation.kind = GenerationKind::kChat;
  generation.model = fields.text("model");
  if (generation.model.empty()) refuse("model is required");
  generation.messages = decode_messages(fields);
  generation.tools = decode_tools(fields);
  generation.tool_choice = decode_tool_choice(fields, generation.tools);
  const auto output = fields.fields("output_config");
  const auto thinking = fields.fields("thinking");
  generation.think = think_of(thinking, output);
  generation.grammar = grammar_of(fields, output);
  request.shows_thinking = !thinking || thinking->text("display") != "omitted";
  return request;
}

Options options_of_fields(const Fields& fields, int64_t max_tokens) {
  Json options = {{"num_predict", max_tokens}};
  for (const char* name : {"temperature", "top_p"})
    if (const auto value = fields.number(name)) options[name] = *value;
  if (const auto top_k = fields.integer("top_k")) options["top_k"] = *top_k;
  if (const Json* num_ctx = fields.value("num_ctx")) options["num_ctx"] = *num_ctx;
  std::vector<std::string> stops = fields.texts("stop_sequences");
  std::erase(stops, "");
  if (!stops.empty()) options["stop"] = std::move(stops);  // else the model's own ones remain
  return options_of(options);
}

// Answers.

Json usage_json(size_t n_prompt, size_t n_cached, size_t n_generated) {
  Json usage;
  usage["input_tokens"] = n_prompt - std::min(n_prompt, n_cached);
  usage["cache_creation_input_tokens"] = 0;
  usage["cache_read_input_tokens"] = n_cached;
  usage["output_tokens"] = n_generated;
  return usage;
}

Json message_json(const MessageHead& head, Json content, Json stop_reason, Json stop_sequence,
                  Json usage) {
  Json message;
  message["id"] = head.id;
  message["type"] = "message";
  message["role"] = "assistant";
  message["model"] = head.model;
  message["content"] = std::move(content);
  message["stop_reason"] = std::move(stop_reason);
  message["stop_sequence"] = std::move(stop_sequence);
  message["usage"] = std::move(usage);
  return message;
}

const char* stop_reason(const Ending& ending, bool has_calls) {
  if (is_cut_off(ending)) return "max_tokens";
  if (!ending.stop_string.empty()) return "stop_sequence";
  return has_calls ? "tool_use" : "end_turn";
}

Json stop_sequence(const Ending& ending) {
  return ending.stop_string.empty() ? Json(nullptr) : Json(ending.stop_string);
}

// Returns an id in Anthropic's form. Keeps an id that the model wrote.
std::string id_of_call(const std::string& id) {
  constexpr std::string_view kOurs = "call_";
  return id.starts_with(kOurs) ? "toolu_" + id.substr(kOurs.size()) : id;
}

// Returns the input of a tool from the arguments of a call. Returns null if they are not an object:
// then the call is broken, and nobody may run it.
Json input_of(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  Json input = read_inner_json(arguments).value_or(nullptr);
  return input.is_object() ? input : Json(nullptr);
}

// Returns the kind of block that an event belongs to.
EventKind kind_of_block(EventKind kind) {
  const bool is_text = kind == EventKind::kThinking || kind == EventKind::kText;
  return is_text ? kind : EventKind::kCallBegin;
}

// Returns a block at its start, without its content.
Json block_json(const Event& first) {
  if (first.kind == EventKind::kThinking)
    return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  if (first.kind == EventKind::kText) return {{"type", "text"}, {"text", ""}};
  return {{"type", "tool_use"},
          {"id", id_of_call(first.id)},
          {"name", first.text},
          {"input", Json::object()}};
}

class MessageObject : public CallAnswer {
 public:
  MessageObject(Call& call, MessageHead head, bool shows_thinking)
      : CallAnswer(call), head_(std::move(head)), shows_thinking_(shows_thinking) {}

  bool delta(const Delta& delta) override {
    for (const Event& event : delta.events) take(event);
    return !call_.stop().stop_requested();
  }

  bool holds_back() const override { return true; }
  void restart(size_t) override { blocks_.clear(); }

  bool end(const Ending& ending) override {
    Json content = Json::array();
    bool has_calls = false;
    for (const Block& block : blocks_) {
      if (!block.is_whole) continue;
      has_calls = has_calls || block.first.kind == EventKind::kCallBegin;
      content.push_back(whole_json(block));
    }
    return respond(message_json(head_, std::move(content), stop_reason(ending, has_calls),
                                stop_sequence(ending),
                                usage_json(ending.n_prompt, ending.n_cached, ending.n_generated)));
  }

  // Never called: decode_message() requests no rendering.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  struct Block {
    Event first;
    std::string text{};
    bool is_whole = true;  // false for a call that was cut off or is broken
  };

  void take(const Event& event) {
    if (event.kind == EventKind::kCallEnd) {
      blocks_.back().is_whole = !input_of(blocks_.back().text).is_null();
      return;
    }
    const bool begins = event.kind == EventKind::kCallBegin || blocks_.empty() ||
                        blocks_.back().first.kind != kind_of_block(event.kind);
    if (begins) blocks_.push_back({.first = event});
    if (event.kind == EventKind::kCallBegin)
      blocks_.back().is_whole = false;
    else
      blocks_.back().text += event.text;
  }

  Json whole_json(const Block& block) const {
    Json made = block_json(block.first);
    if (block.first.kind == EventKind::kThinking) {
      if (shows_thinking_) made["thinking"] = block.text;
      made["signature"] = kSignature;
    } else if (block.first.kind == EventKind::kText) {
      made["text"] = block.text;
    } else {
      made["input"] = input_of(block.text);
    }
    return made;
  }

  const MessageHead head_;
  const bool shows_thinking_;
  std::vector<Block> blocks_;
};

std::string event_text(const Json& object) {
  return http::sse_event(to_text(object), object["type"].get_ref<const std::string&>());
}

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

class MessageStream : public CallAnswer {
 public:
  MessageStream(Call& call, MessageHead head, bool shows_thinking, SteadyNow now)
      : CallAnswer(call),
        head_(std::move(head)),
        shows_thinking_(shows_thinking),
        stream_(call, std::move(now), kPing) {}

  void sized(const Sizing& sizing) override {
    CallAnswer::sized(sizing);
    n_prompt_ = sizing.n_prompt;
  }

  void still_working() override {
    if (stream_.must_begin())
      stream_.begin(opening());
    else
      stream_.still_working();
  }

  bool fail(int status, std::string_view text) override {
    return stream_.fail(status, text,
                        http::sse_event(error_json(status, text, call_.trace().id()), "error"));
  }

  bool delta(const Delta& delta) override {
    std::string text = comments(delta.notices);
    for (const Event& event : joined(delta.events)) add_event(text, event);
    if (!text.empty()) return stream_.write(opening() + text);
    still_working();
    return true;
  }

  bool end(const Ending& ending) override {
    std::string text = opening();
    close_block(text);
    Json last = {{"type", "message_delta"}};
    last["delta"]["stop_reason"] = stop_reason(ending, has_calls_);
    last["delta"]["stop_sequence"] = stop_sequence(ending);
    last["usage"] = usage_json(ending.n_prompt, ending.n_cached, ending.n_generated);
    text += event_text(last) + event_text({{"type", "message_stop"}});
    return stream_.finish(text);
  }

  // Never called: decode_message() requests no rendering.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  // Returns the first events of a stream; nothing if the stream has them already.
  std::string opening() {
    if (std::exchange(is_opened_, true)) return "";
    return event_text({{"type", "message_start"},
                       {"message", message_json(head_, Json::array(), nullptr, nullptr,
                                                usage_json(n_prompt_, 0, 0))}});
  }

  void add_event(std::string& text, const Event& event) {
    if (event.kind == EventKind::kCallEnd) {
      has_calls_ = has_calls_ || !input_of(arguments_).is_null();
      return close_block(text);
    }
    const EventKind kind = kind_of_block(event.kind);
    if (event.kind == EventKind::kCallBegin || open_ != kind) {
      close_block(text);
      open_ = kind;
      arguments_.clear();
      text += event_text({{"type", "content_block_start"},
                          {"index", index_},
                          {"content_block", block_json(event)}});
    }
    if (event.kind == EventKind::kCallArguments) arguments_ += event.text;
    if (event.kind == EventKind::kThinking && shows_thinking_)
      add_delta(text, {{"type", "thinking_delta"}, {"thinking", event.text}});
    else if (event.kind == EventKind::kText)
      add_delta(text, {{"type", "text_delta"}, {"text", event.text}});
    else if (event.kind == EventKind::kCallArguments)
      add_delta(text, {{"type", "input_json_delta"}, {"partial_json", event.text}});
  }

  void close_block(std::string& text) {
    if (!open_) return;
    if (open_ == EventKind::kThinking)
      add_delta(text, {{"type", "signature_delta"}, {"signature", kSignature}});
    text += event_text({{"type", "content_block_stop"}, {"index", index_}});
    open_.reset();
    ++index_;
  }

  void add_delta(std::string& text, Json delta) const {
    text += event_text(
        {{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
  }

  const MessageHead head_;
  const bool shows_thinking_;
  EventStream stream_;
  size_t n_prompt_ = 0;
  bool is_opened_ = false;
  std::optional<EventKind> open_;  // the kind of the open block
  size_t index_ = 0;               // of the open block, or of the next one
  std::string arguments_;          // of the open call
  bool has_calls_ = false;         // true after a complete call
};

}  // namespace

MessagesRequest decode_message(std::string_view body) {
  const Fields fields = Fields::parse(body, "MessagesRequest");
  MessagesRequest request = decode(fields, kMessageFields);
  const int64_t max_tokens = fields.integer("max_tokens").value_or(0);
  if (max_tokens < 1) refuse("max_tokens is required and must be positive");
  request.stream = fields.flag("stream").value_or(false);
  request.generation.options = options_of_fields(fields, max_tokens);
  request.generation.keep_alive = keep_alive_of(fields.value("keep_alive"));
  request.generation.cache_salt = cache_salt_of(fields);
  return request;
}

MessagesRequest decode_count(std::string_view body) {
  MessagesRequest request = decode(Fields::parse(body, "CountTokensRequest"), kCountFields);
  request.generation.render_only = true;
  request.generation.counts_only = true;
  return request;
}

std::unique_ptr<CallAnswer> message_answer(Call& call, MessageHead head,
                                           const MessagesRequest& request, SteadyNow now) {
  if (!request.stream)
    return std::make_unique<MessageObject>(call, std::move(head), request.shows_thinking);
  return std::make_unique<MessageStream>(call, std::move(head), request.shows_thinking,
                                         std::move(now));
}

}  // namespace billow::api::anthropic

// A generation request, independent of the API: plain data. See answer.h for its answer and
// generator.h for the generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "constraint/grammar.h"
#include "scheduler/engine_choice.h"
#include "scheduler/sampling.h"
#include "scheduler/time.h"

namespace billow::api {

// The parts of a message.
struct TextPart {
  std::string text;
};
struct ThinkingPart {
  std::string text;
};
struct ImagePart {
  std::string bytes;      // decoded from base64
  std::string address{};  // of the web, instead of bytes; the generator fetches them
};
struct ToolCall {
  std::string id{};  // empty if none was given
  std::string name;
  Json arguments = Json::object();  // an object
};
using Part = std::variant<TextPart, ThinkingPart, ImagePart, ToolCall>;

struct Message {
  std::string role;           // lower case
  std::vector<Part> parts{};  // in the order of the request
  // For the result of a tool: the tool's name and the id of the call.
  std::string tool_name{};
  std::string tool_call_id{};

  // Returns all text, with an empty line between parts; all thinking, joined.
  std::string text() const;
  std::string thinking() const;
  size_t n_images() const noexcept;
  std::vector<const ToolCall*> tool_calls() const;
};
Message text_message(std::string role, std::string text);
// Returns the last message if it has this role. Otherwise appends a message with this role.
Message& turn_of(std::vector<Message>& messages, const std::string& role);

// The request's settings for a model that can think.
struct Think {
  std::optional<bool> enabled{};  // unset: the model's default
  std::string level{};            // "low", "medium", "high", "max"; empty: none
};

// A tool that the model may call.
struct Tool {
  std::string name;
  Json declaration;     // {"type","function":{"name",...},...}, passed to templates
  bool strict = false;  // the arguments must match the schema

  // Returns the schema of the arguments; null allows any object.
  const Json* parameters() const;
};

enum class ToolUse : uint8_t {
  kAuto,      // the model decides
  kNone,      // no calls: text that looks like a call stays text
  kRequired,  // at least one call
};
struct ToolChoice {
  ToolUse use = ToolUse::kAuto;
  std::string name{};    // of the only tool that may be called; empty: any tool
  bool parallel = true;  // allows more than one call
};

// The options of a request or of a model. Unset options fall back to the model's, then to the
// server's.
struct Options {
  scheduler::Sampling sampling{};
  std::optional<std::vector<std::string>> stop{};
  std::optional<int64_t> num_predict{};  // negative: no limit
  std::optional<size_t> num_ctx{};
  std::optional<size_t> max_draft{};  // draft_num_predict: max drafted tokens per pass
  // Only for models: what runs the model.
  std::optional<scheduler::Engine> engine{};
  std::optional<int> num_gpu{};
};

enum class GenerationKind : uint8_t {
  kPrompt,  // a prompt, rendered by the template (generate, completions)
  kChat,    // messages
};

struct GenerationRequest {
  GenerationKind kind = GenerationKind::kChat;
  std::string model;  // as the client wrote it
  // kPrompt
  std::string prompt{};
  std::vector<int32_t> prompt_tokens{};  // replaces `prompt`; the ids are used as they are
  std::string suffix{};
  std::optional<std::string> system{};
  std::optional<std::string> template_text{};
  std::vector<int32_t> context{};  // tokens of an earlier answer
  bool raw = false;                // no template
  bool echo = false;               // the answer begins with the prompt
  std::vector<std::string> images{};
  std::string image_marker = "[img]";  // placeholder for the images of a raw prompt, in order
  // kChat
  std::vector<Message> messages{};
  std::vector<Tool> tools{};
  ToolChoice tool_choice{};
  // both
  Options options{};
  int64_t seed_shift = 0;  // >= 0; added to the seed of the request or of the model
  // Error of options that cannot be parsed. The check of the model's capabilities comes first.
  std::string wrong_options{};
  std::optional<constraint::Grammar> grammar{};  // the answer must match it
  std::optional<scheduler::Duration> keep_alive{};
  Think think{};
  bool truncate = true;
  std::optional<bool> shift{};
  bool ignore_eos = false;  // only num_predict and stop strings end the answer
  // a text that the answer may resemble; matching parts are generated faster
  std::string prediction{};
  bool logprobs = false;
  int top_logprobs = 0;
  // cache_salt: requests with different salts share no prefixes, drafts or pictures
  std::string cache_salt{};
  std::optional<int64_t> slot{};  // id_slot: the slot that holds the text (api/slots.h)
  bool render_only = false;       // _debug_render_only
  bool counts_only = false;       // with render_only: the whole prompt, even beyond the context
  bool live_events = false;       // the client wants notices of transitions and compactions
  bool is_bulk = false;           // starts only while no other request waits
  bool whole_calls = false;       // the client wants only complete tool calls
};

}  // namespace billow::api

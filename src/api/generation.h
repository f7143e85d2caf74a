// A request to write, whatever API it came by: plain data. What comes of it is in answer.h; the
// generator between the two is in generator.h.
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

// What a message consists of.
struct TextPart {
  std::string text;
};
struct ThinkingPart {
  std::string text;
};
struct ImagePart {
  std::string bytes;  // base64 decoded
};
struct ToolCall {
  std::string id{};  // empty: none was given
  std::string name;
  Json arguments = Json::object();  // an object
};
using Part = std::variant<TextPart, ThinkingPart, ImagePart, ToolCall>;

struct Message {
  std::string role;           // lower case
  std::vector<Part> parts{};  // in the order in which they were written
  // Of a result: the tool that gave it, and the call.
  std::string tool_name{};
  std::string tool_call_id{};

  // All text, with an empty line between parts, and all thinking, put together.
  std::string text() const;
  std::string thinking() const;
  size_t n_images() const noexcept;
  std::vector<const ToolCall*> tool_calls() const;
};
Message text_message(std::string role, std::string text);
// The last message where it has this role, else a new one behind it.
Message& turn_of(std::vector<Message>& messages, const std::string& role);

// What was asked of a model that can think.
struct Think {
  std::optional<bool> enabled{};  // unset: the model's way
  std::string level{};            // "low", "medium", "high", "max"; empty: none
};

// A tool that the model may call.
struct Tool {
  std::string name;
  Json declaration;     // {"type","function":{"name",...},...}, as templates are given it
  bool strict = false;  // its arguments are held to its schema

  // The schema of its arguments; null: any object.
  const Json* parameters() const;
};

enum class ToolUse : uint8_t {
  kAuto,      // the model decides
  kNone,      // no calls: what looks like one is text
  kRequired,  // at least one call
};
struct ToolChoice {
  ToolUse use = ToolUse::kAuto;
  std::string name{};    // of the only tool that may be called; empty: any
  bool parallel = true;  // more than one call is allowed
};

// A request's options, or those of a model. What is unset is as the model, then the server has it.
struct Options {
  scheduler::Sampling sampling{};
  std::optional<std::vector<std::string>> stop{};
  std::optional<int64_t> num_predict{};  // negative: no limit
  std::optional<size_t> num_ctx{};
  std::optional<size_t> max_draft{};  // draft_num_predict: drafted tokens of a pass
  // Of a model alone: what runs it.
  std::optional<scheduler::Engine> engine{};
  std::optional<int> num_gpu{};
};

enum class GenerationKind : uint8_t {
  kPrompt,  // a prompt, with the template around it (generate, completions)
  kChat,    // messages
};

struct GenerationRequest {
  GenerationKind kind = GenerationKind::kChat;
  std::string model;  // as the client wrote it
  // kPrompt
  std::string prompt{};
  std::vector<int32_t> prompt_tokens{};  // in place of `prompt`, taken as they are
  std::string suffix{};
  std::optional<std::string> system{};
  std::optional<std::string> template_text{};
  std::vector<int32_t> context{};  // tokens of an earlier answer
  bool raw = false;                // no template
  bool echo = false;               // the answer begins with the prompt
  std::vector<std::string> images{};
  std::string image_marker = "[img]";  // what stands for them in a raw prompt, in their order
  // kChat
  std::vector<Message> messages{};
  std::vector<Tool> tools{};
  ToolChoice tool_choice{};
  // both
  Options options{};
  // Why the options cannot be read, where they cannot: what the model lacks is said before that.
  std::string wrong_options{};
  std::optional<constraint::Grammar> grammar{};  // what the answer is held to
  std::optional<scheduler::Duration> keep_alive{};
  Think think{};
  bool truncate = true;
  std::optional<bool> shift{};
  bool ignore_eos = false;   // only num_predict and stop strings end the answer
  std::string prediction{};  // a text that the answer may resemble: parts of it come sooner then
  bool logprobs = false;
  int top_logprobs = 0;
  bool render_only = false;  // _debug_render_only
  bool live_events = false;  // the client wants transitions and compactions
  bool whole_calls = false;  // the client wants no call of a tool before it is complete
};

}  // namespace billow::api

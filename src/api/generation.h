// A request to write, whatever API it came by, and what comes of it: plain data, and the sink that
// each API's codec is. The generator between them is in generator.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace billow::api {

struct Message {
  std::string role;  // lower case
  std::string content{};
  std::string thinking{};
  std::vector<std::string> images{};  // bytes, base64 decoded
  std::string tool_calls_json{};      // an array as in Ollama's API, or empty
  std::string tool_name{};
  std::string tool_call_id{};
};

// What was asked of a model that can think.
struct Think {
  std::optional<bool> enabled;  // unset: the model's way
  std::string level{};          // "low", "medium", "high", "max"; empty: none
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
  std::string suffix{};
  std::optional<std::string> system{};
  std::optional<std::string> template_text{};
  std::vector<int32_t> context{};  // tokens of an earlier answer
  bool raw = false;
  std::vector<std::string> images{};
  // kChat
  std::vector<Message> messages{};
  std::string tools_json{};  // an array, or empty
  // both
  std::string options_json = "{}";  // an object, checked by store::check_options
  std::string format_json{};        // "\"json\"", a schema, or empty
  std::string keep_alive_json{};    // a string or a number, or empty
  Think think{};
  bool truncate = true;
  std::optional<bool> shift{};
  bool logprobs = false;
  int top_logprobs = 0;
  bool render_only = false;  // _debug_render_only
  bool live_events = false;  // the client wants transitions and compactions
};

struct ToolCall {
  std::string id;  // "call_" and 8 letters or digits
  size_t index = 0;
  std::string name;
  std::string arguments_json;  // an object
};

struct Logprob {
  std::string token;
  double logprob = 0.0;
  std::string bytes;
  std::vector<Logprob> top{};
};

// Something new of the answer; any of it may be empty, not all.
struct Delta {
  std::string content{};
  std::string thinking{};
  std::vector<ToolCall> tool_calls{};
  std::vector<Logprob> logprobs{};
  std::vector<std::string> events{};  // a JSON object each: {"type","text",...}; where asked for
};

// Known before the answer begins.
struct Sizing {
  size_t n_prompt = 0;       // tokens, after what was cut
  size_t n_prompt_full = 0;  // before
  size_t n_answer = 0;       // reserved for the answer
  size_t context = 0;        // N
  size_t max_context = 0;    // of the model, or the server's cap
  std::string reason;        // one line: "31 + 8161 left, of 8192"
};

struct Ending {
  std::string done_reason{};       // "stop", "length", "load", "unload"
  std::vector<int32_t> context{};  // tokens of prompt and answer; empty where raw
  size_t n_prompt = 0;
  size_t n_cached = 0;
  size_t n_generated = 0;  // tokens of the answer, and the one that ended it where one did
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds load{};
  std::chrono::nanoseconds prompted{};
  std::chrono::nanoseconds written{};
};

// What an API's codec does with an answer. Called on the request's thread: rendered() or any
// number of delta() and one end(), or nothing where the generator throws. What they return or
// throw: false says that the client is gone.
class Sink {
 public:
  virtual ~Sink() = default;
  // First of all: the model, as it is shown. Then, where there is something to answer, its size.
  virtual void found(const std::string& /*model*/) {}
  virtual void sized(const Sizing&) {}
  virtual bool delta(const Delta& delta) = 0;
  // Nothing is sent before the end, so that the answer may begin again where its runner has died;
  // restart() says that it does: what was given so far is void.
  virtual bool holds_back() const { return false; }
  virtual void restart() {}
  virtual bool end(const Ending& ending) = 0;
  // In place of an answer, where only the prompt was asked for.
  virtual bool rendered(const std::string& prompt, size_t n_images) = 0;
  // Nothing to send has come for a while: the prompt is long, the model is loaded, or there is no
  // place for the request yet. A sign of life may be sent.
  virtual void still_working() {}
};

}  // namespace billow::api

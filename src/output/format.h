// How a family of models writes thinking and calls of tools: a row of a table, or made from a
// model's template. Formats are plain data; any thread may use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "output/grammar.h"
#include "prompt/go_template.h"

namespace billow::output {

// Whether the vocabulary has this text as one control token, so that it comes with a Mark.
using IsControl = std::function<bool(std::string_view text)>;

struct Format {
  std::string name;
  Thinking thinking{};
  std::vector<CallForm> calls{};  // in the order in which they are tried
  Wrapping text{};
  // Parts of markers that may be control tokens of a vocabulary, as whole markers may.
  Texts tokens{};
  // The control tokens that are in this vocabulary. They count only with a Mark, and all other text
  // only without.
  Texts control{};
};

// The row of this name, with no control tokens: names that Ollama's PARSER knows, and ours. Null if
// there is none.
const Format* find_format(std::string_view name);

// All rows, for tests and lists.
std::span<const Format> all_formats();

// Names that Ollama knows in a Modelfile's PARSER and RENDERER lines.
bool is_parser(std::string_view name);
bool is_renderer(std::string_view name);

// What is known of a model. The strongest evidence decides: parser, template, architecture.
struct Evidence {
  std::string_view parser{};               // of its manifest, or empty
  std::string_view jinja{};                // the template that renders its prompts, or empty
  const prompt::GoTemplate* go = nullptr;  // instead of it, or null
  std::string_view architecture{};         // general.architecture
  IsControl is_control{};                  // none: the vocabulary has no control tokens
};

// The format of a model, with the control tokens that its vocabulary has. A row of the table where
// one fits; else one made from the template: think tags if it names them, what a Go template prints
// before .ToolCalls and around .Thinking, or bare JSON.
Format recognise(const Evidence& evidence);

// The control tokens that a parser has to see: passed on as text, with a Mark. All others are to be
// dropped.
std::span<const std::string> control_markers(const Format& format);

// What of the answer the prompt has already written.
enum class StartState : uint8_t {
  kMayThink,   // the model may begin with thinking, and marks it itself
  kThinking,   // the prompt has begun the thinking
  kText,       // the prompt has ended the thinking, or the model does not think
  kContinued,  // the model goes on with its text: what counts only where one begins does not
};

struct Start {
  StartState state = StartState::kMayThink;
  // The end of the prompt that belongs to what the model writes, as a call that it goes on with.
  // The parser reads it first; nothing of it is text again.
  std::string prefix{};
};

struct StartHints {
  bool thinks = true;  // the request does not turn thinking off
  // The last message is one of the model's, and the prompt ends with it.
  std::string_view text{};
  std::string_view thinking{};
};

// How an answer to this rendered prompt begins. The last 64 KiB of it are enough.
Start start_of(const Format& format, std::string_view prompt, const StartHints& hints = {});

}  // namespace billow::output

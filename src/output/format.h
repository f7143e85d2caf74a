// How a family of models writes thinking and calls of tools. A format is a row of a table, or made
// from a model's template. Formats are plain data and thread-safe.
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

// Returns whether the vocabulary has this text as one control token, which comes with a Mark.
using IsControl = std::function<bool(std::string_view text)>;

struct Format {
  std::string name;
  Thinking thinking{};
  std::vector<CallForm> calls{};  // the parser tries them in this order
  Wrapping text{};
  // Parts of markers that can be control tokens of a vocabulary. Whole markers can be control
  // tokens, too.
  Texts tokens{};
  // The control tokens in this vocabulary. They count only with a Mark; all other text counts only
  // without.
  Texts control{};
};

// Returns the row of this name, without control tokens, or null. Names are those of Ollama's PARSER
// and Billow's own.
const Format* find_format(std::string_view name);

// Returns all rows, for tests and lists.
std::span<const Format> all_formats();

// Return whether Ollama has this name for the PARSER or RENDERER line of a Modelfile.
bool is_parser(std::string_view name);
bool is_renderer(std::string_view name);

// Facts about a model. The strongest fact decides: parser, template, architecture.
struct Evidence {
  std::string_view parser{};               // PARSER of the manifest, or empty
  std::string_view jinja{};                // the template that renders its prompts, or empty
  const prompt::GoTemplate* go = nullptr;  // used instead of `jinja`; or null
  std::string_view architecture{};         // general.architecture
  IsControl is_control{};                  // none: the vocabulary has no control tokens
};

// Returns the format of a model, with the control tokens of its vocabulary. If a row of the table
// fits, the format is that row. Else the format is made from the template: known think tags in its
// text; the texts that a Go template prints before .ToolCalls and around .Thinking; or bare JSON.
Format recognise(const Evidence& evidence);

// Returns the control tokens that a parser must see. The caller passes them on as text, with a
// Mark, and drops all other control tokens.
std::span<const std::string> control_markers(const Format& format);

// Returns whether the text, without blanks around it, is a marker that ends calls of the format. A
// single character is no marker.
bool ends_calls(const Format& format, std::string_view text);

// Which part of the answer the prompt already contains.
enum class StartState : uint8_t {
  kMayThink,   // the model may begin with thinking, and writes the marker
  kThinking,   // the prompt has begun the thinking
  kText,       // the prompt has ended the thinking, or the model does not think
  kContinued,  // the model continues its text; markers of a beginning do not count
};

struct Start {
  StartState state = StartState::kMayThink;
  // The end of the prompt that belongs to the model's answer, as the beginning of a call. The
  // parser reads it first. It is not reported as text.
  std::string prefix{};
};

struct StartHints {
  bool thinks = true;               // the request does not turn thinking off
  std::string_view text{};          // the model's last message, with which the prompt ends
  bool continues_thinking = false;  // the prompt ends inside of the model's thinking
};

// Returns how an answer to this rendered prompt begins. The last 64 KiB of the prompt are enough.
Start start_of(const Format& format, std::string_view prompt, const StartHints& hints = {});

}  // namespace billow::output

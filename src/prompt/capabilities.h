// Finds out what a model's template supports, from the template's text. Also chooses between the
// two templates of a model. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "prompt/go_template.h"

namespace billow::prompt {

struct TemplateCapabilities {
  bool tools = false;         // the template prints declarations of tools
  bool insert = false;        // the template supports fill in the middle
  bool thinking = false;      // the template prints thinking between tags
  bool tool_results = false;  // the template prints results of tools

  bool operator==(const TemplateCapabilities&) const = default;
};

// Looks for .Tools, .Suffix, and tags around .Thinking. Tool results need the role "tool", or a
// field that only a tool result has.
TemplateCapabilities capabilities_of(const GoTemplate& source);

// Looks for words in the text. Tools: "tools" or "tool_call". Thinking: both thinking tags, or a
// cut at the closing tag. Tool results: the role "tool" or "ipython", or a mark of results. No
// Jinja template supports fill in the middle.
TemplateCapabilities capabilities_of_jinja(std::string_view source);

// Returns whether to use the Jinja template of the GGUF instead of the Go template. The Jinja
// template must support more of tools, insert and thinking. If both support equally many, both must
// support tools, and only the Jinja template their results. If only the Go template supports tools
// with their results, the Go template is used.
bool prefers_jinja(const TemplateCapabilities& go, const TemplateCapabilities& jinja);

enum class TemplateKind { kGo, kJinja, kNone };

// The user's choice about Go templates (OLLAMA_GO_TEMPLATE).
enum class GoTemplateUse { kAuto, kAlways, kNever };

// Chooses between the two templates of a model. Null: the model does not have this template.
TemplateKind choose_template(const TemplateCapabilities* go, const TemplateCapabilities* jinja,
                             GoTemplateUse use);

}  // namespace billow::prompt

// What a model's template lets it do, read off the template's text, and which of two templates to
// use. Pure functions; any thread may call.
#pragma once

#include <string_view>

#include "prompt/go_template.h"

namespace billow::prompt {

struct TemplateCapabilities {
  bool tools = false;         // declarations of tools have a place in it
  bool insert = false;        // text around a gap has
  bool thinking = false;      // thinking has, between tags
  bool tool_results = false;  // the results of tools have

  bool operator==(const TemplateCapabilities&) const = default;
};

// .Tools, .Suffix, tags around .Thinking; results where it asks for the role "tool", or for what
// only a result has.
TemplateCapabilities capabilities_of(const GoTemplate& source);

// "tools" or "tool_call"; both thinking tags, or a cut at the closing one; results where it knows
// the role "tool" or "ipython", or marks results. A Jinja template fills no gap.
TemplateCapabilities capabilities_of_jinja(std::string_view source);

// Whether the Jinja template of the GGUF is to be used rather than the Go template: it can do more,
// and does not break off the round trip of tools that the Go template closes; or both can do the
// same, tools too, and it alone takes their results.
bool prefers_jinja(const TemplateCapabilities& go, const TemplateCapabilities& jinja);

enum class TemplateKind { kGo, kJinja, kNone };

// What the user said about Go templates (OLLAMA_GO_TEMPLATE).
enum class GoTemplateUse { kAuto, kAlways, kNever };

// Which to use of the two that a model has; null stands for one that it does not have.
TemplateKind choose_template(const TemplateCapabilities* go, const TemplateCapabilities* jinja,
                             GoTemplateUse use);

}  // namespace billow::prompt

// What a template asks of the messages of a conversation, and the changes that fit messages to it.
// Pure functions; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "api/generation.h"
#include "prompt/chat_template.h"

namespace billow::api {

struct TemplateRules {
  bool has_developer_role = false;  // it knows the role "developer"
  bool has_short_ids = false;       // it takes only ids of calls with nine letters or digits
  bool has_single_calls = false;    // it shows only one call per message
  bool has_text_arguments = false;  // it shows the arguments of a call as text, which is JSON
  bool has_null_contents = false;   // it shows only calls whose message has a null content
};

// Finds the rules that the text of a template of any kind shows. A template that knows the role
// "developer" has this word in quotes; others only write the word.
TemplateRules rules_of_text(std::string_view source);

// Finds all rules of a Jinja template. Renders a short conversation with a call in each wording and
// takes the first one that the template shows. A template that shows no call has the default rules.
TemplateRules rules_of_jinja(const prompt::ChatTemplate& compiled, std::string_view source);

// Changes messages so that the template takes them:
// - has_short_ids: replaces ids of calls, and of their results. A result without a known id belongs
//   to the first call without a result.
// - has_single_calls: divides a message with several calls. Each call is followed by its result.
// - has_null_contents: puts the text of a message with calls into a message before them.
void fit_messages(const TemplateRules& rules, std::vector<Message>& messages);

}  // namespace billow::api

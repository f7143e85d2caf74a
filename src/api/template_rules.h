// What a template asks of the messages of a conversation, and the changes that fit messages to it.
// Pure functions; thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "api/generation.h"
#include "base/json_fwd.h"
#include "prompt/chat_template.h"

namespace billow::api {

struct TemplateRules {
  bool has_developer_role = false;    // it shows messages of the role "developer"
  bool has_ids = false;               // it may show ids of calls
  bool has_short_ids = false;         // it takes only ids of calls with nine letters or digits
  bool has_single_calls = false;      // it shows only one call per message
  bool has_text_arguments = false;    // it shows the arguments of a call as text, which is JSON
  bool has_null_contents = false;     // it shows only calls whose message has a null content
  bool has_lone_calls = false;        // it does not show a text and a call of one message
  bool has_one_system = false;        // it shows one system message at the beginning
  bool has_no_empty_answers = false;  // it refuses answers without text
  bool has_functions = false;         // it needs the variables `functions` and `datetime`
};

// Finds the rules that the text of a template of any kind shows. A template that knows the role
// "developer" has this word in quotes; others only write the word.
TemplateRules rules_of_text(std::string_view source);

// Finds all rules of a Jinja template. Renders short conversations: with a call in each wording,
// and takes the first one that the template shows; with two calls; with a text and a call; with two
// system messages; with an empty answer. A template that shows no call has no rules about calls.
TemplateRules rules_of_jinja(const prompt::ChatTemplate& compiled, std::string_view source);

// Adds tools to the input of a Jinja template: a JSON array in OpenAI's form, or null.
// has_functions: also adds `functions`, which is the JSON text of their functions, and `datetime`,
// which is the date. A time of day would change the beginning of every prompt, so that prompts
// could not share their KV.
void add_tools(const TemplateRules& rules, const Json& tools, Json& input);

// Changes messages so that the template takes them. A result belongs to the call of the message
// before it that has its id; else to the first call of its tool without a result; else to the first
// call without a result. Results come in the order of their calls.
// - has_ids: calls without ids get ids, and their results, too.
// - has_short_ids: replaces other ids of calls, and of their results.
// - has_single_calls: divides a message with several calls. Each call is followed by its result.
// - has_null_contents, has_lone_calls: puts the text of a message with calls into a message before
//   them.
// - has_one_system: joins system messages that follow one another.
// - has_no_empty_answers: leaves out answers without text and calls.
void fit_messages(const TemplateRules& rules, std::vector<Message>& messages);

}  // namespace billow::api

// What `run` does with a server: answers shown as they come, one or a session of them. For the main
// thread.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"
#include "cli/client/line_editor.h"
#include "cli/client/session.h"

namespace billow::cli {

struct ShownAnswer {
  std::string text;
  std::string thinking;
  bool interrupted = false;  // by Ctrl-C; the rest is missing
};

// Sends a request to /api/generate or /api/chat and prints the answer. Throws as
// ApiClient::stream does.
ShownAnswer show_answer(ApiClient& client, const std::string& path, const Json& request,
                        const SessionSettings& settings);

// Sends the model an empty request, which loads it, with a spinner meanwhile.
void load_model(ApiClient& client, const std::string& model, const SessionSettings& settings);

// Reads lines and answers them until the user leaves.
void converse(ApiClient& client, Session& session, LineEditor& editor);

// The messages that a model begins with, as they would have been typed and answered.
std::string opening_text(const Json& show_reply);

}  // namespace billow::cli

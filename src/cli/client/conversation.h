// The part of `run` that talks to a server: shows one answer or a session of answers while they
// arrive. Use it from the main thread.
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
  bool interrupted = false;  // by Ctrl-C; the answer is incomplete
};

// Sends a request to /api/generate or /api/chat and prints the answer. Passes on exceptions of
// ApiClient::stream.
ShownAnswer show_answer(ApiClient& client, const std::string& path, const Json& request,
                        const SessionSettings& settings);

// Loads the model with an empty request. Shows the progress of the load while it waits.
void load_model(ApiClient& client, const std::string& model, const SessionSettings& settings);

// Reads messages and shows the answers until the user ends the session.
void converse(ApiClient& client, Session& session, LineEditor& editor);

// Returns the initial messages of a model, in the form of typed and answered messages.
std::string opening_text(const Json& show_reply);

}  // namespace billow::cli

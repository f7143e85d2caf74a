// Pulls and pushes of the server, shown as they go. For the main thread.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"
#include "cli/client/status_line.h"

namespace billow::cli {

// Has the server pull a model from its registry. `insecure`: by http. Ends the program when the
// user interrupts it; the server keeps what has come. Throws ApiError with what went wrong.
void pull_model(ApiClient& client, const std::string& model, bool insecure);

// Shows an object {"status", "total", "completed"} of the server's progress.
void show_step(const Json& object, StatusLine& status);

}  // namespace billow::cli

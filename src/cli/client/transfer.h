// Shows pulls and pushes of the server while they run. Use it from the main thread.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cli/client/api_client.h"
#include "cli/client/status_line.h"

namespace billow::cli {

// Makes the server pull a model from its registry. `insecure`: over http. If the user interrupts,
// ends the program; the server keeps the received parts. Throws ApiError if the pull fails.
void pull_model(ApiClient& client, const std::string& model, bool insecure);

// Shows a progress object of the server: {"status", "total", "completed"}.
void show_step(const Json& object, StatusLine& status);

}  // namespace billow::cli

// How a transfer from or to a registry is shown to a client. One thread.
#pragma once

#include "api/ollama/progress.h"
#include "registry/client.h"

namespace billow::api::ollama {

// Reports each step as {"status"}, with "digest", "total" and "completed" where it is about a
// layer. The progress outlives the listener.
registry::Listener listener_of(Progress& progress);

}  // namespace billow::api::ollama

// Reports the progress of a transfer from or to a registry to a client. Not thread-safe.
#pragma once

#include "api/ollama/progress.h"
#include "registry/client.h"

namespace billow::api::ollama {

// Returns a listener that reports each step as {"status"}. Steps of a layer also have "digest",
// "total" and "completed". REQUIRES: the progress outlives the listener.
registry::Listener listener_of(Progress& progress);

}  // namespace billow::api::ollama

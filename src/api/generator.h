// Turns a request into its answer. It looks up the model, renders and counts the prompt, sizes the
// context and gets a runner. It splits the runner's output into thinking, tool calls and text.
// Thread-safe.
#pragma once

#include <stop_token>

#include "api/answer.h"
#include "api/generation.h"
#include "metrics/trace.h"

namespace billow::api {

class Generator {
 public:
  virtual ~Generator() = default;
  // Throws http::StatusError, Error or scheduler::Cancelled if the request fails. The sink may have
  // received a part of the answer by then. If the prompt is empty or there are no messages, only
  // loads the model, or unloads it if keep_alive is 0. Then it calls only sink.found() and
  // sink.end().
  virtual void run(const GenerationRequest& request, Sink& sink, std::stop_token stop,
                   metrics::Trace& trace) = 0;
};

}  // namespace billow::api

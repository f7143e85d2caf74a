// From a request to its answer: the model is looked up, the prompt rendered, counted and sized, a
// runner found, what it writes taken apart into thinking, tool calls and text. Any thread; many at
// once.
#pragma once

#include <stop_token>

#include "api/answer.h"
#include "api/generation.h"
#include "metrics/trace.h"

namespace billow::api {

class Generator {
 public:
  virtual ~Generator() = default;
  // Throws http::StatusError, Error or scheduler::Cancelled where the request fails; the sink may
  // have been given a part of the answer by then. An empty prompt or no messages: the model is
  // loaded, or ended where keep_alive is 0, and only sink.end() is called.
  virtual void run(const GenerationRequest& request, Sink& sink, std::stop_token stop,
                   metrics::Trace& trace) = 0;
};

}  // namespace billow::api

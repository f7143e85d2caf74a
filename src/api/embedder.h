// A request for vectors, whatever API it came by. Any thread; many at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "metrics/trace.h"

namespace billow::api {

struct EmbedRequest {
  std::string model;
  std::vector<std::string> inputs{};
  bool truncate = true;
  size_t dimensions = 0;  // cut to so many, then normalised; 0, or more than there are: all
  bool normalise = true;
  std::string options_json = "{}";
  std::string keep_alive_json{};
};

struct EmbedReply {
  std::string model{};                        // as it is shown
  std::vector<std::vector<float>> vectors{};  // in the order of the inputs
  size_t n_prompt = 0;                        // tokens of all inputs
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds load{};
};

class Embedder {
 public:
  virtual ~Embedder() = default;
  // Without inputs the model is loaded. Throws http::StatusError, Error, scheduler::Cancelled.
  virtual EmbedReply embed(const EmbedRequest& request, std::stop_token stop,
                           metrics::Trace& trace) = 0;
};

}  // namespace billow::api

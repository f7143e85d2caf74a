// A request for vectors, or for scores of pairs, whatever API it came by. Any thread; many at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "api/generation.h"
#include "metrics/trace.h"

namespace billow::api {

// Where an input that is longer than the model takes loses tokens. Special ones stay.
enum class Truncation : uint8_t {
  kNone,   // it is refused
  kLeft,   // at its beginning
  kRight,  // at its end
};

// An input that could not be read, in a request that wants the others nevertheless.
struct UnusableInput {
  std::string why;  // one line
  bool operator==(const UnusableInput&) const = default;
};

// A text, or token ids, which are taken as they are: special ones included.
using EmbedInput = std::variant<std::string, std::vector<int32_t>, UnusableInput>;

struct EmbedRequest {
  std::string model;
  std::vector<EmbedInput> inputs{};
  // Where there is one, each input is the second text of a pair with it, and the model ranks.
  std::optional<std::string> query{};
  Truncation truncation = Truncation::kRight;
  std::string pooling{};             // in place of the model's; empty: that
  size_t dimensions = 0;             // cut to so many, then normalised; 0: all
  bool dimensions_must_fit = false;  // more than the model has are refused; else they mean all
  bool normalise = true;             // to length 1
  bool partial = false;              // an input that fails is told of in its place
  bool is_bulk = false;              // waits until nothing else does
  std::string client{};              // whose it is: several take turns
  Options options{};
  std::optional<scheduler::Duration> keep_alive{};
};

// Of one input.
struct EmbedResult {
  std::vector<float> values{};  // the vector; of a pair its score
  size_t n_tokens = 0;  // not 0: it is not pooled, and `values` are vectors of so many tokens
  std::string error{};  // why there are none, in one line; only of a partial request
  int status = 0;       // of that error, as of HTTP
};

struct EmbedReply {
  std::string model{};                 // as it is shown
  std::vector<EmbedResult> results{};  // in the order of the inputs
  size_t n_prompt = 0;                 // tokens of all inputs, special ones included
  size_t n_cut = 0;                    // inputs that were cut
  size_t context = 0;                  // the largest of its inputs' contexts; 0: no input was used
  std::string context_reason{};        // why, in one line
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

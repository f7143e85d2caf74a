// A request for vectors or for scores of pairs, independent of the API. Thread-safe.
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

// How an input that exceeds the model's max length is truncated. Special tokens stay.
enum class Truncation : uint8_t {
  kNone,   // the input is refused
  kLeft,   // drops tokens at the beginning
  kRight,  // drops tokens at the end
};

// An input that could not be parsed, in a request that still wants the results of the others.
struct UnusableInput {
  std::string why;  // one line
  bool operator==(const UnusableInput&) const = default;
};

// A text, or token ids. Ids are used as they are and include special tokens.
using EmbedInput = std::variant<std::string, std::vector<int32_t>, UnusableInput>;

struct EmbedRequest {
  std::string model;
  std::vector<EmbedInput> inputs{};
  // If set, the model ranks: each input is the second text of a pair with the query.
  std::optional<std::string> query{};
  Truncation truncation = Truncation::kRight;
  std::string pooling{};  // overrides the model's pooling; empty: the model's
  size_t dimensions = 0;  // truncates vectors to this size and then normalises them; 0: full size
  // refuse more dimensions than the model has; otherwise return all
  bool dimensions_must_fit = false;
  bool normalise = true;  // to length 1
  bool partial = false;   // a failed input gets an error in its place
  bool is_bulk = false;   // runs only while no other input waits
  std::string client{};   // client id: clients with waiting inputs take turns
  Options options{};
  std::optional<scheduler::Duration> keep_alive{};
};

// The result of one input.
struct EmbedResult {
  std::vector<float> values{};  // the vector; for a pair: its score
  size_t n_tokens = 0;          // 0: pooled; otherwise `values` are this many vectors
  std::string error{};          // one line if it failed; only in partial requests
  int status = 0;               // the HTTP status of that error
};

struct EmbedReply {
  std::string model{};                 // displayed name
  std::vector<EmbedResult> results{};  // in the order of the inputs
  size_t n_prompt = 0;                 // tokens of all inputs, including special tokens
  size_t n_cut = 0;                    // number of truncated inputs
  size_t context = 0;                  // largest context of the inputs; 0: no input was used
  std::string context_reason{};        // explains `context` in one line
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds load{};
};

class Embedder {
 public:
  virtual ~Embedder() = default;
  // If the request has no inputs, only loads the model. Throws http::StatusError, Error,
  // scheduler::Cancelled.
  virtual EmbedReply embed(const EmbedRequest& request, std::stop_token stop,
                           metrics::Trace& trace) = 0;
};

}  // namespace billow::api

// Turns what a runner writes into the answer of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/catalog.h"
#include "api/generation.h"
#include "base/json_fwd.h"
#include "metrics/trace.h"
#include "output/parser.h"
#include "scheduler/runner.h"

namespace billow::api {

// Returns whether the prompt comes before the answer with its log probabilities.
bool wants_prompt_logprobs(const GenerationRequest& request);

// Everything that the parser of an answer needs.
struct AnswerForm {
  output::Format format;
  output::Start start;
  std::vector<output::Tool> tools;
  output::Options options;
};
AnswerForm form_of(const ServedModel& model, const GenerationRequest& request,
                   output::Format format, output::Start start);

// Parses the text of a runner and passes events to the sink. For one request and one thread. The
// arguments must outlive it.
class AnswerWriter {
 public:
  // `n_prompt`: tokens of the prompt that the runner gets. `on_event` receives the transitions and
  // compactions of the context.
  AnswerWriter(const GenerationRequest& request, size_t n_prompt, AnswerForm form, Sink& sink,
               metrics::Trace& trace, std::function<void(const Json& event)> on_event);

  void set_slot(size_t slot) { slot_ = static_cast<int64_t>(slot); }
  // Starts again after the runner has died: another runner repeats the answer from the beginning.
  void restart();
  // Puts the prompt before the answer. If log probabilities are requested, the prompt waits for
  // those of its tokens. Returns false if the client wants no more.
  bool echo(std::string prompt);
  // Returns false if the client wants no more.
  bool take(const scheduler::CompletionPiece& piece);
  // A stop string of the request cuts the answer off, unless it ends a call: no call is completed.
  // Returns false if the client wants no more.
  bool finish(const scheduler::CompletionEnd& end);

  // Time of the first token; nullopt if there is none yet.
  std::optional<metrics::Clock::time_point> first() const { return first_; }
  // Estimates how many tokens the answer has so far, from its bytes.
  size_t n_tokens_about() const;

 private:
  bool send_prompt(const std::vector<scheduler::TokenLogprob>& logprobs);
  output::Parser new_parser() const;
  // Adds ids to calls. If only one call is allowed, drops all after the first whole one.
  void finish_events(Delta& delta);
  void mark_event(const std::string& text);

  const GenerationRequest& request_;
  const size_t n_prompt_;
  const AnswerForm form_;
  output::Parser parser_;
  std::string prompt_;               // precedes the answer
  std::optional<size_t> only_call_;  // the first whole call, if no other is allowed
  int64_t slot_ = -1;
  size_t n_bytes_ = 0;
  Sink& sink_;
  metrics::Trace& trace_;
  const std::function<void(const Json& event)> on_event_;
  std::optional<metrics::Clock::time_point> first_;
  bool has_begun_ = false;  // Sink::begun() was called
};

}  // namespace billow::api

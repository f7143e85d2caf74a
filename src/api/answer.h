// The answer to a generation request: plain data, and the interface that each API's codec
// implements to receive it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "output/event.h"
#include "scheduler/estimate.h"

namespace billow::api {

// The log probability of one token. The first token of a prompt has none: its value is -infinity.
struct Logprob {
  std::string token;
  double logprob = 0.0;
  std::string bytes;
  std::vector<Logprob> top{};
  int32_t id = 0;
};

using output::Event;
using output::EventKind;

// The next part of an answer. Any field may be empty, but not all of them.
struct Delta {
  size_t choice = 0;  // index of the answer, if a request has several
  // `events` hold the prompt that precedes the answer: GenerationRequest::echo
  bool is_prompt = false;
  int64_t slot = -1;            // of the request (api/slots.h)
  std::vector<Event> events{};  // in the order of generation; all calls have ids
  std::vector<Logprob> logprobs{};
  // transitions and compactions, a JSON object each; only on request
  std::vector<std::string> notices{};
};

// Returns "call_" and 8 random letters or digits.
std::string new_call_id();

// Returns the same events. Adjacent events of the same kind are merged.
std::vector<Event> joined(const std::vector<Event>& events);

// A complete tool call.
struct WrittenCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object as the model wrote it
};

// An answer, or a part of it, merged into whole texts and calls.
struct WholeAnswer {
  std::string text{};
  std::string thinking{};
  std::vector<WrittenCall> calls{};
  std::vector<Logprob> logprobs{};
  std::vector<std::string> notices{};

  bool empty() const noexcept;
};

// Collects the deltas of an answer.
class AnswerParts {
 public:
  void add(const Delta& delta);
  // Returns everything collected so far. It does not contain a call that is still incomplete.
  const WholeAnswer& whole() const noexcept { return whole_; }
  // Returns the same and starts with an empty answer.
  WholeAnswer take();
  void clear() { *this = {}; }

 private:
  WholeAnswer whole_;
  WrittenCall open_;
};

// The sizes that the server computes before the answer begins.
struct Sizing {
  size_t n_prompt = 0;       // tokens of the prompt after truncation
  size_t n_prompt_full = 0;  // tokens of the prompt before truncation
  size_t n_answer = 0;       // tokens reserved for the answer
  size_t context = 0;        // positions of the request's context
  size_t max_context = 0;    // max of the model, or the server's cap
  // one line: "31 tokens of the prompt and 8161 left for the answer, of 8192"
  std::string reason{};
  scheduler::ModelCost cost{};  // memory that the scheduler grants before the answer begins
};

// How an answer ended, with its token counts and times.
struct Ending {
  size_t choice = 0;          // like Delta::choice
  int64_t slot = -1;          // like Delta::slot; -1: nothing was evaluated
  std::string done_reason{};  // "stop", "length", "repetition", "repeats", "load", "unload"
  std::string stop_string{};  // the request's stop string that ended the answer; empty if none did
  std::vector<int32_t> context{};  // tokens of the prompt and the answer; empty for raw requests
  size_t n_prompt = 0;
  size_t n_cached = 0;
  size_t n_generated = 0;       // tokens of the answer, including a token that ended it
  size_t n_drafted = 0;         // tokens that were guessed and then evaluated
  size_t n_draft_accepted = 0;  // guessed tokens that became part of the answer
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds load{};
  std::chrono::nanoseconds prompted{};
  std::chrono::nanoseconds written{};
};

// Returns true if the answer has no natural end: it reached its token limit or repeated itself.
bool is_cut_off(const Ending& ending) noexcept;

// Receives the answer to a request; each API's codec implements it. The generator calls it on the
// request's thread. It calls rendered(), or any number of delta() and one end() for each choice. It
// stops calling if it throws. The functions return false if the client has disconnected.
class Sink {
 public:
  virtual ~Sink() = default;
  // The generator calls found() first, with the displayed name of the model. It then calls sized()
  // if there is something to answer.
  virtual void found(const std::string& /*model*/) {}
  virtual void sized(const Sizing&) {}
  // The prompt is evaluated and cached. Comes before the first delta of the answer, which may come
  // much later. May come again after restart().
  virtual void begun() {}
  virtual bool delta(const Delta& delta) = 0;
  // True if the codec sends nothing before the end. Then the generator may restart the answer after
  // its runner has died. It calls restart(), and the codec must discard the choice's deltas so far.
  virtual bool holds_back() const { return false; }
  virtual void restart(size_t /*choice*/) {}
  virtual bool end(const Ending& ending) = 0;
  // Replaces the answer if the client wants only the prompt.
  virtual bool rendered(const std::string& prompt, size_t n_images) = 0;
  // Reports that there has been nothing to send for a while. The prompt is long, the model is
  // loading, or the request waits in the queue. The codec may send a keep-alive event.
  virtual void still_working() {}
};

}  // namespace billow::api

// What comes of a request to write: plain data, and the sink that each API's codec is.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "output/event.h"

namespace billow::api {

// Of a token. The first one of a prompt has none: it is -infinity.
struct Logprob {
  std::string token;
  double logprob = 0.0;
  std::string bytes;
  std::vector<Logprob> top{};
};

using output::Event;
using output::EventKind;

// Something new of an answer; any of it may be empty, not all.
struct Delta {
  size_t choice = 0;            // of which answer, where a request has several
  bool is_prompt = false;       // the prompt, put before the answer: GenerationRequest::echo
  std::vector<Event> events{};  // in the order in which they were written; all calls have ids
  std::vector<Logprob> logprobs{};
  std::vector<std::string> notices{};  // transitions, compactions: a JSON object each; where asked
};

// "call_" and 8 random letters or digits.
std::string new_call_id();

// The same events, with neighbours of one kind put together.
std::vector<Event> joined(const std::vector<Event>& events);

// A call that is complete.
struct WrittenCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object as the model wrote it
};

// An answer, or a part of it, put together.
struct WholeAnswer {
  std::string text{};
  std::string thinking{};
  std::vector<WrittenCall> calls{};
  std::vector<Logprob> logprobs{};
  std::vector<std::string> notices{};

  bool empty() const noexcept;
};

// Puts an answer together.
class AnswerParts {
 public:
  void add(const Delta& delta);
  // What was put together; a call that is not complete is not part of it.
  const WholeAnswer& whole() const noexcept { return whole_; }
  // The same, and begins again with what comes next.
  WholeAnswer take();
  void clear() { *this = {}; }

 private:
  WholeAnswer whole_;
  WrittenCall open_;
};

// Known before the answer begins.
struct Sizing {
  size_t n_prompt = 0;       // tokens, after what was cut
  size_t n_prompt_full = 0;  // before
  size_t n_answer = 0;       // reserved for the answer
  size_t context = 0;        // N
  size_t max_context = 0;    // of the model, or the server's cap
  std::string reason{};      // one line: "31 + 8161 left, of 8192"
};

struct Ending {
  size_t choice = 0;               // as Delta's
  std::string done_reason{};       // "stop", "length", "repetition", "load", "unload"
  std::string stop_string{};       // of "stop": the one of the request that ended it; empty: none
  std::vector<int32_t> context{};  // tokens of prompt and answer; empty where raw
  size_t n_prompt = 0;
  size_t n_cached = 0;
  size_t n_generated = 0;       // tokens of the answer, and the one that ended it where one did
  size_t n_drafted = 0;         // tokens that were guessed and evaluated before they were chosen
  size_t n_draft_accepted = 0;  // of them, those that the answer has
  std::chrono::nanoseconds total{};
  std::chrono::nanoseconds load{};
  std::chrono::nanoseconds prompted{};
  std::chrono::nanoseconds written{};
};

// It has no end of its own: its tokens were spent, or it repeated itself.
bool is_cut_off(const Ending& ending) noexcept;

// What an API's codec does with an answer. Called on the request's thread: rendered() or any
// number of delta() and one end() for each choice, or nothing where the generator throws. What they
// return or throw: false says that the client is gone.
class Sink {
 public:
  virtual ~Sink() = default;
  // First of all: the model, as it is shown. Then, where there is something to answer, its size.
  virtual void found(const std::string& /*model*/) {}
  virtual void sized(const Sizing&) {}
  virtual bool delta(const Delta& delta) = 0;
  // Nothing is sent before the end, so that the answer may begin again where its runner has died;
  // restart() says that it does: what was given so far is void.
  virtual bool holds_back() const { return false; }
  virtual void restart(size_t /*choice*/) {}
  virtual bool end(const Ending& ending) = 0;
  // In place of an answer, where only the prompt was asked for.
  virtual bool rendered(const std::string& prompt, size_t n_images) = 0;
  // Nothing to send has come for a while: the prompt is long, the model is loaded, or there is no
  // place for the request yet. A sign of life may be sent.
  virtual void still_working() {}
};

}  // namespace billow::api

// Base classes of OpenAI's generation answers. Use them on the request's thread only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/call_answer.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

struct AnswerHead {
  std::string id;
  int64_t created = 0;  // seconds since 1970
  std::string model;    // as the client wrote it
};

class TextAnswer : public CallAnswer {
 public:
  // REQUIRES: the call outlives the answer.
  TextAnswer(Call& call, AnswerHead head) : CallAnswer(call), head_(std::move(head)) {}

 protected:
  const AnswerHead head_;
};

class EventStream : public api::EventStream {
 public:
  using api::EventStream::EventStream;
  // Ends the stream with an error in OpenAI's form. Returns false if the stream has not begun.
  [[nodiscard]] bool fail(int status, std::string_view text);
};

// Counts the tokens of all choices.
class Usage {
 public:
  // n_each: choices per prompt; the tokens of a prompt count once. `predicts`: the request has a
  // prediction, so the usage includes guessed tokens.
  explicit Usage(size_t n_each, bool predicts = false) : n_each_(n_each), predicts_(predicts) {}
  void add(const Ending& ending);
  // Returns
  // {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}}.
  // With a prediction, adds
  // "completion_tokens_details":{"accepted_prediction_tokens","rejected_prediction_tokens"}, which
  // counts all guessed tokens.
  Json to_json() const;

 private:
  size_t n_each_;
  size_t n_prompt_ = 0;
  size_t n_cached_ = 0;
  size_t n_generated_ = 0;
  bool predicts_;
  size_t n_drafted_ = 0;
  size_t n_draft_accepted_ = 0;
};

// Returns "stop" or another reason in OpenAI's words; null if `reason` is empty.
Json finish_reason(std::string_view reason);

// Returns the beginning of all chunks of a stream:
// "data: {"id","object","created","model","system_fingerprint","choices":".
std::string chunk_head(const AnswerHead& head, std::string_view object);
// Returns the same fields as an object, for an answer that is not streamed.
Json answer_object(const AnswerHead& head, std::string_view object);

inline constexpr std::string_view kDone = "data: [DONE]\n\n";

}  // namespace billow::api::openai

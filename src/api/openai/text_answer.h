// What the answers of OpenAI's writing routes have in common. Used on the request's thread.
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
  // The call outlives the answer.
  TextAnswer(Call& call, AnswerHead head) : CallAnswer(call), head_(std::move(head)) {}

 protected:
  const AnswerHead head_;
};

class EventStream : public api::EventStream {
 public:
  using api::EventStream::EventStream;
  // Ends with an error in OpenAI's form; false: it has not begun.
  [[nodiscard]] bool fail(int status, std::string_view text);
};

// The tokens of all choices.
class Usage {
 public:
  // n_each: choices for each prompt, whose tokens count once. `predicts`: the request has a
  // prediction, so the usage counts guessed tokens.
  explicit Usage(size_t n_each, bool predicts = false) : n_each_(n_each), predicts_(predicts) {}
  void add(const Ending& ending);
  // {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}},
  // and with a prediction "completion_tokens_details":{"accepted_prediction_tokens",
  // "rejected_prediction_tokens"}: of all tokens that were guessed.
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

// "stop", or null where there is none.
Json finish_reason(std::string_view reason);

// "data: {"id","object","created","model","system_fingerprint","choices":": what all chunks of a
// stream begin with.
std::string chunk_head(const AnswerHead& head, std::string_view object);
// The same fields as an object, for an answer in one piece.
Json answer_object(const AnswerHead& head, std::string_view object);

inline constexpr std::string_view kDone = "data: [DONE]\n\n";

}  // namespace billow::api::openai

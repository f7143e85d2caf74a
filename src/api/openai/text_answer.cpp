#include "api/openai/text_answer.h"

#include "api/fields.h"
#include "api/openai/errors.h"
#include "base/json.h"
#include "http/sse.h"

namespace billow::api::openai {

bool EventStream::fail(int status, std::string_view text) {
  return api::EventStream::fail(status, text, http::sse_event(error_json(status, text)));
}

void Usage::add(const Ending& ending) {
  n_generated_ += ending.n_generated;
  n_drafted_ += ending.n_drafted;
  n_draft_accepted_ += ending.n_draft_accepted;
  if (ending.choice % n_each_ != 0) return;
  n_prompt_ += ending.n_prompt;
  n_cached_ += ending.n_cached;
}

Json Usage::to_json() const {
  Json usage;
  usage["prompt_tokens"] = n_prompt_;
  usage["completion_tokens"] = n_generated_;
  usage["total_tokens"] = n_prompt_ + n_generated_;
  usage["prompt_tokens_details"]["cached_tokens"] = n_cached_;
  if (predicts_) {
    Json& details = usage["completion_tokens_details"];
    details["accepted_prediction_tokens"] = n_draft_accepted_;
    details["rejected_prediction_tokens"] = n_drafted_ - n_draft_accepted_;
  }
  return usage;
}

Json finish_reason(std::string_view reason) {
  // Clients know no other reason for an answer that was cut off.
  if (reason == "repetition" || reason == "repeats") return "length";
  return reason.empty() ? Json(nullptr) : Json(std::string(reason));
}

Json answer_object(const AnswerHead& head, std::string_view object) {
  Json answer;
  answer["id"] = head.id;
  answer["object"] = object;
  answer["created"] = head.created;
  answer["model"] = head.model;
  answer["system_fingerprint"] = "fp_ollama";
  return answer;
}

std::string chunk_head(const AnswerHead& head, std::string_view object) {
  std::string text = "data: " + to_text(answer_object(head, object));
  text.back() = ',';  // replaces the closing brace
  return text + "\"choices\":";
}

}  // namespace billow::api::openai

#include "api/openai/text_answer.h"

#include <algorithm>
#include <utility>

#include "api/fields.h"
#include "api/openai/errors.h"
#include "base/json.h"
#include "http/sse.h"

namespace billow::api::openai {

void TextAnswer::found(const std::string& model) { call_.set_model(model); }

void TextAnswer::sized(const Sizing& sizing) { tell_sizing(call_, sizing); }

bool TextAnswer::fail(int, std::string_view) { return false; }

bool TextAnswer::respond(const Json& object) {
  return call_.respond({.content_type = "application/json", .body = to_text(object) + "\n"});
}

EventStream::EventStream(Call& call, SteadyNow now)
    : call_(call), now_(std::move(now)), last_sent_(now_()) {}

bool EventStream::begin(std::string_view events) {
  has_begun_ = true;
  return call_.begin_stream(200, "text/event-stream", events);
}

bool EventStream::write(std::string_view events) {
  if (events.empty()) return true;
  last_sent_ = now_();
  return has_begun_ ? call_.write(events) : begin(events);
}

bool EventStream::finish(std::string_view events) {
  return (has_begun_ || begin({})) && call_.finish(events);
}

void EventStream::still_working() {
  const auto silence = now_() - last_sent_;
  if (!has_begun_ && silence >= kHeadPatience) {
    last_sent_ = now_();
    begin();
  } else if (has_begun_ && silence >= kCommentPatience) {
    write(": \n\n");
  }
}

bool EventStream::fail(int status, std::string_view text) {
  if (!has_begun_) return false;
  call_.fail(status, std::string(text));
  finish(http::sse_event(error_json(status, text)));
  return true;
}

std::string comments(const std::vector<std::string>& events) {
  std::string lines;
  for (const std::string& event : events) {
    const Json object = Json::parse(event, nullptr, false);
    const auto text = object.is_object() ? object.find("text") : object.end();
    if (text == object.end() || !text->is_string()) continue;
    std::string line = text->get<std::string>();
    std::ranges::replace_if(line, [](char c) { return c == '\r' || c == '\n'; }, ' ');
    lines += ": " + line + "\n\n";
  }
  return lines;
}

Json usage_json(const Ending& ending) {
  Json usage;
  usage["prompt_tokens"] = ending.n_prompt;
  usage["completion_tokens"] = ending.n_generated;
  usage["total_tokens"] = ending.n_prompt + ending.n_generated;
  usage["prompt_tokens_details"]["cached_tokens"] = ending.n_cached;
  return usage;
}

Json finish_reason(std::string_view reason) {
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
  text.back() = ',';  // in the place of the brace
  return text + "\"choices\":";
}

}  // namespace billow::api::openai

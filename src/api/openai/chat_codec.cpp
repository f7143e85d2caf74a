#include "api/openai/chat_codec.h"

#include <string>
#include <utility>
#include <vector>

#include "api/openai/chat_messages.h"
#include "api/openai/errors.h"
#include "api/tool_fields.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

Json tool_calls_json(const std::vector<ToolCall>& calls) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    Json entry;
    entry["id"] = call.id;
    entry["index"] = call.index;
    entry["type"] = "function";
    entry["function"]["name"] = call.name;
    entry["function"]["arguments"] = call.arguments_json;
    list.push_back(std::move(entry));
  }
  return list;
}

Json logprob_json(const Logprob& logprob) {
  Json entry;
  entry["token"] = logprob.token;
  entry["logprob"] = logprob.logprob;
  entry["bytes"] = Json::array();
  for (const char byte : logprob.bytes) {
    entry["bytes"].push_back(static_cast<unsigned char>(byte));
  }
  return entry;
}

// {"content":[...]}. OpenAI's clients read top_logprobs of each, also where none were asked for.
Json logprobs_json(const std::vector<Logprob>& logprobs) {
  Json list = Json::array();
  for (const Logprob& logprob : logprobs) {
    Json entry = logprob_json(logprob);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& other : logprob.top) entry["top_logprobs"].push_back(logprob_json(other));
    list.push_back(std::move(entry));
  }
  Json object;
  object["content"] = std::move(list);
  return object;
}

class ChatObject : public TextAnswer {
 public:
  using TextAnswer::TextAnswer;

  bool delta(const Delta& delta) override {
    content_ += delta.content;
    thinking_ += delta.thinking;
    calls_.insert(calls_.end(), delta.tool_calls.begin(), delta.tool_calls.end());
    logprobs_.insert(logprobs_.end(), delta.logprobs.begin(), delta.logprobs.end());
    return !call_.stop().stop_requested();
  }

  bool holds_back() const override { return true; }
  void restart() override {
    content_.clear();
    thinking_.clear();
    calls_.clear();
    logprobs_.clear();
  }

  bool end(const Ending& ending) override { return respond(answer(ending)); }

  bool rendered(const std::string& prompt, size_t n_images) override {
    Json object = answer({});
    object["_debug_info"]["rendered_template"] = prompt;
    if (n_images > 0) object["_debug_info"]["image_count"] = n_images;
    return respond(object);
  }

 private:
  Json answer(const Ending& ending) const {
    Json choice;
    choice["index"] = 0;
    Json& message = choice["message"];
    message["role"] = "assistant";
    message["content"] = content_;
    if (!thinking_.empty()) message["reasoning"] = thinking_;
    if (!calls_.empty()) message["tool_calls"] = tool_calls_json(calls_);
    const bool was_for_tools = !calls_.empty() && ending.done_reason == "stop";
    choice["finish_reason"] = finish_reason(was_for_tools ? "tool_calls" : ending.done_reason);
    if (!logprobs_.empty()) choice["logprobs"] = logprobs_json(logprobs_);
    Json object = answer_object(head_, "chat.completion");
    object["choices"] = Json::array({std::move(choice)});
    object["usage"] = usage_json(ending);
    return object;
  }

  std::string content_;
  std::string thinking_;
  std::vector<ToolCall> calls_;
  std::vector<Logprob> logprobs_;
};

class ChatStream : public TextAnswer {
 public:
  ChatStream(Call& call, AnswerHead head, bool include_usage, SteadyNow now)
      : TextAnswer(call, std::move(head)),
        stream_(call, std::move(now)),
        include_usage_(include_usage),
        chunk_head_(chunk_head(head_, "chat.completion.chunk")) {}

  void still_working() override { stream_.still_working(); }
  bool fail(int status, std::string_view text) override { return stream_.fail(status, text); }

  bool delta(const Delta& delta) override {
    std::string events = comments(delta.events);
    const bool has_answer = !delta.content.empty() || !delta.tool_calls.empty();
    if (!delta.thinking.empty() && has_answer) {
      Json thought = first_part();
      thought["reasoning"] = delta.thinking;
      add_chunk(events, std::move(thought), nullptr, delta.logprobs);
      add_chunk(events, answer_part(delta), nullptr, {});
    } else if (!delta.thinking.empty() || has_answer || !delta.logprobs.empty()) {
      Json part = answer_part(delta);
      if (!delta.thinking.empty()) part["reasoning"] = delta.thinking;
      add_chunk(events, std::move(part), nullptr, delta.logprobs);
    }
    return stream_.write(events);
  }

  bool end(const Ending& ending) override {
    std::string events;
    if (!role_sent_) add_chunk(events, answer_part({}), nullptr, {});
    std::string reason = ending.done_reason.empty() ? "stop" : ending.done_reason;
    if (has_calls_) reason = "tool_calls";
    add_chunk(events, Json::object(), reason, {});
    if (include_usage_) {
      events += chunk_head_ + "[],\"usage\":" + to_text(usage_json(ending)) + "}\n\n";
    }
    return stream_.finish(events.append(kDone));
  }

  // What is only rendered is not streamed: decode_common.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  // With the role, in the first chunk of the answer.
  Json first_part() {
    Json part = Json::object();
    if (!std::exchange(role_sent_, true)) part["role"] = "assistant";
    return part;
  }

  Json answer_part(const Delta& delta) {
    Json part = first_part();
    part["content"] = delta.content;
    if (!delta.tool_calls.empty()) part["tool_calls"] = tool_calls_json(delta.tool_calls);
    has_calls_ = has_calls_ || !delta.tool_calls.empty();
    return part;
  }

  void add_chunk(std::string& events, Json part, const Json& reason,
                 const std::vector<Logprob>& logprobs) const {
    Json choice;
    choice["index"] = 0;
    choice["delta"] = std::move(part);
    choice["finish_reason"] = reason;
    if (!logprobs.empty()) choice["logprobs"] = logprobs_json(logprobs);
    events += chunk_head_ + "[" + to_text(choice) + "]}\n\n";
  }

  EventStream stream_;
  const bool include_usage_;
  const std::string chunk_head_;
  bool role_sent_ = false;
  bool has_calls_ = false;
};

}  // namespace

TextRequest decode_chat(std::string_view body) {
  const Fields fields = parse_body(body, "ChatCompletionRequest");
  TextRequest request = decode_common(fields);
  GenerationRequest& generation = request.generation;
  generation.kind = GenerationKind::kChat;
  generation.messages = decode_messages(fields);
  generation.options_json = sampling_options(fields, TextRoute::kChat);
  generation.format_json = format_json(fields);
  generation.think = think_of(fields);
  generation.tools_json = tools_json(fields);
  generation.logprobs = fields.flag("logprobs").value_or(false);
  generation.top_logprobs = top_logprobs(fields, "top_logprobs");
  if (generation.model.empty()) refuse("model is required");
  return request;
}

std::unique_ptr<TextAnswer> chat_answer(Call& call, AnswerHead head, const TextRequest& request,
                                        SteadyNow now) {
  if (!request.stream) return std::make_unique<ChatObject>(call, std::move(head));
  return std::make_unique<ChatStream>(call, std::move(head), request.include_usage, std::move(now));
}

}  // namespace billow::api::openai

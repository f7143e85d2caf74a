#include "api/openai/chat_codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/json_text.h"
#include "api/openai/chat_messages.h"
#include "api/openai/errors.h"
#include "api/tool_choice.h"
#include "api/tool_fields.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

Json function_json(const std::string& name, const std::string& arguments) {
  return {{"name", name}, {"arguments", arguments}};
}

Json tool_calls_json(const std::vector<WrittenCall>& calls) {
  Json list = Json::array();
  for (const WrittenCall& call : calls) {
    list.push_back({{"id", call.id},
                    {"index", list.size()},
                    {"type", "function"},
                    {"function", function_json(call.name, call.arguments)}});
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

// Returns {"content":[...]}. OpenAI's clients read top_logprobs of each entry, even if they
// requested none.
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

// Returns the finish reason of an answer that has called tools.
const char* reason_of_calls(bool legacy) { return legacy ? "function_call" : "tool_calls"; }

bool predicts(const TextRequest& request) {
  return !request.generations.empty() && !request.generations.front().prediction.empty();
}

class ChatObject : public TextAnswer {
 public:
  ChatObject(Call& call, AnswerHead head, const TextRequest& request)
      : TextAnswer(call, std::move(head)),
        legacy_calls_(request.legacy_calls),
        choices_(request.n),
        usage_(request.n, predicts(request)) {}

  bool delta(const Delta& delta) override {
    choices_[delta.choice].parts.add(delta);
    return !call_.stop().stop_requested();
  }

  bool holds_back() const override { return true; }
  void restart(size_t choice) override { choices_[choice].parts.clear(); }

  bool end(const Ending& ending) override {
    choices_[ending.choice].reason = ending.done_reason;
    usage_.add(ending);
    return ++n_ended_ < choices_.size() || respond(answer());
  }

  bool rendered(const std::string& prompt, size_t n_images) override {
    Json object = answer();
    object["_debug_info"]["rendered_template"] = prompt;
    if (n_images > 0) object["_debug_info"]["image_count"] = n_images;
    return respond(object);
  }

 private:
  struct Choice {
    AnswerParts parts;
    std::string reason{};
  };

  Json choice_json(size_t index) const {
    const WholeAnswer& whole = choices_[index].parts.whole();
    Json choice;
    choice["index"] = index;
    Json& message = choice["message"];
    message["role"] = "assistant";
    message["content"] = whole.text;
    if (!whole.thinking.empty()) message["reasoning"] = whole.thinking;
    if (!whole.calls.empty() && legacy_calls_)
      message["function_call"] = function_json(whole.calls[0].name, whole.calls[0].arguments);
    else if (!whole.calls.empty())
      message["tool_calls"] = tool_calls_json(whole.calls);
    const std::string& reason = choices_[index].reason;
    const bool was_for_tools = !whole.calls.empty() && reason == "stop";
    choice["finish_reason"] =
        finish_reason(was_for_tools ? reason_of_calls(legacy_calls_) : reason);
    if (!whole.logprobs.empty()) choice["logprobs"] = logprobs_json(whole.logprobs);
    return choice;
  }

  Json answer() const {
    Json object = answer_object(head_, "chat.completion");
    for (size_t i = 0; i < choices_.size(); ++i) object["choices"].push_back(choice_json(i));
    object["usage"] = usage_.to_json();
    return object;
  }

  const bool legacy_calls_;
  std::vector<Choice> choices_;
  Usage usage_;
  size_t n_ended_ = 0;
};

class ChatStream : public TextAnswer {
 public:
  ChatStream(Call& call, AnswerHead head, const TextRequest& request, SteadyNow now)
      : TextAnswer(call, std::move(head)),
        stream_(call, std::move(now)),
        include_usage_(request.include_usage),
        legacy_calls_(request.legacy_calls),
        chunk_head_(chunk_head(head_, "chat.completion.chunk")),
        choices_(request.n),
        usage_(request.n, predicts(request)) {}

  void still_working() override { stream_.still_working(); }
  bool fail(int status, std::string_view text) override { return stream_.fail(status, text); }

  bool delta(const Delta& delta) override {
    std::string text = comments(delta.notices);
    Choice& choice = choices_[delta.choice];
    bool has_logprobs = !delta.logprobs.empty();
    // Adjacent events of one kind share a chunk. The first chunk has the log probabilities.
    for (size_t i = 0; i < delta.events.size();) {
      const Event& first = delta.events[i];
      std::string joined = first.text;
      for (++i; i < delta.events.size() && continues(first, delta.events[i]); ++i)
        joined += delta.events[i].text;
      if (choice.role_sent && !has_logprobs && add_plain_chunk(text, delta.choice, first, joined))
        continue;
      Json part = part_of(choice, first, joined);
      if (part.is_null()) continue;
      add_chunk(text, delta.choice, std::move(part), nullptr,
                std::exchange(has_logprobs, false) ? &delta.logprobs : nullptr);
    }
    if (has_logprobs)
      add_chunk(text, delta.choice, first_part(choice, {{"content", ""}}), nullptr,
                &delta.logprobs);
    return stream_.write(text);
  }

  bool end(const Ending& ending) override {
    Choice& choice = choices_[ending.choice];
    std::string text;
    if (!choice.role_sent)
      add_chunk(text, ending.choice, first_part(choice, {{"content", ""}}), nullptr, nullptr);
    std::string reason = ending.done_reason.empty() ? "stop" : ending.done_reason;
    if (choice.n_calls > 0 && reason == "stop") reason = reason_of_calls(legacy_calls_);
    add_chunk(text, ending.choice, Json::object(), finish_reason(reason), nullptr);
    usage_.add(ending);
    if (++n_ended_ < choices_.size()) return stream_.write(text);
    if (include_usage_) text += chunk_head_ + "[],\"usage\":" + to_text(usage_.to_json()) + "}\n\n";
    return stream_.finish(text.append(kDone));
  }

  // Never called: a rendered prompt is not streamed (decode_common()).
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  struct Choice {
    bool role_sent = false;
    size_t n_calls = 0;  // complete calls that the client has
  };

  static bool continues(const Event& first, const Event& next) {
    const bool is_text = first.kind == EventKind::kThinking || first.kind == EventKind::kText ||
                         first.kind == EventKind::kCallArguments;
    return is_text && next.kind == first.kind && next.call == first.call;
  }

  // Adds the role to the first chunk of a choice.
  static Json first_part(Choice& choice, Json part) {
    if (std::exchange(choice.role_sent, true)) return part;
    Json made = {{"role", "assistant"}};
    if (!part.contains("content")) made["content"] = "";
    made.update(part);
    return made;
  }

  // Returns the chunk's part for an event; null if there is none.
  Json part_of(Choice& choice, const Event& event, const std::string& text) const {
    const auto function = [&](Json entry, Json made) -> Json {
      if (legacy_calls_) {
        if (event.call > 0) return nullptr;  // function_call has room for only one call
        return {{"function_call", std::move(made)}};
      }
      entry["function"] = std::move(made);
      return {{"tool_calls", Json::array({std::move(entry)})}};
    };
    Json part;
    switch (event.kind) {
      case EventKind::kThinking:
        part = {{"reasoning", text}};
        break;
      case EventKind::kText:
        part = {{"content", text}};
        break;
      case EventKind::kCallBegin:
        part = function({{"index", event.call}, {"id", event.id}, {"type", "function"}},
                        function_json(text, ""));
        break;
      case EventKind::kCallArguments:
        part = function({{"index", event.call}}, {{"arguments", text}});
        break;
      case EventKind::kCallEnd:
        if (!legacy_calls_ || event.call == 0) ++choice.n_calls;
        return nullptr;
    }
    return part.is_null() ? part : first_part(choice, std::move(part));
  }

  // Does the same as add_chunk() for text and thinking, as in most chunks. Returns false for other
  // events.
  bool add_plain_chunk(std::string& out, size_t index, const Event& event,
                       const std::string& text) const {
    const bool is_text = event.kind == EventKind::kText;
    if (!is_text && event.kind != EventKind::kThinking) return false;
    out.append(chunk_head_).append(R"([{"index":)").append(std::to_string(index));
    out += is_text ? R"(,"delta":{"content":)" : R"(,"delta":{"reasoning":)";
    append_string(out, text);
    out += "},\"finish_reason\":null}]}\n\n";
    return true;
  }

  void add_chunk(std::string& text, size_t index, Json part, const Json& reason,
                 const std::vector<Logprob>* logprobs) const {
    Json choice;
    choice["index"] = index;
    choice["delta"] = std::move(part);
    choice["finish_reason"] = reason;
    if (logprobs != nullptr) choice["logprobs"] = logprobs_json(*logprobs);
    text += chunk_head_ + "[" + to_text(choice) + "]}\n\n";
  }

  EventStream stream_;
  const bool include_usage_;
  const bool legacy_calls_;
  const std::string chunk_head_;
  std::vector<Choice> choices_;
  Usage usage_;
  size_t n_ended_ = 0;
};

}  // namespace

namespace {

// Parses {"type":"content","content":TEXT or [{"type":"text","text":TEXT}]}; empty if it is
// missing.
std::string prediction_of(const Fields& fields) {
  const auto given = fields.fields("prediction");
  if (!given) return "";
  constexpr const char* kForm =
      "field \"prediction\" must be {\"type\": \"content\", \"content\": a text or a list of text "
      "parts}";
  if (given->text("type") != "content") refuse(kForm);
  const Json* content = given->value("content");
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  if (content == nullptr || !content->is_array()) refuse(kForm);
  std::string text;
  for (const Fields& part : given->objects("content")) {
    if (part.text("type") != "text") refuse(kForm);
    text += part.text("text");
  }
  return text;
}

// Sets the tools of "tools", or else those of the older field "functions".
void read_tools(const Fields& fields, TextRequest& request) {
  std::vector<Tool>& tools = request.generations.front().tools;
  for (const Fields& tool : fields.objects("tools")) {
    const std::string type = tool.text("type");
    if (!type.empty() && type != "function")
      refuse("field \"tools\" has a tool of type \"" + type +
             "\", which is not supported: only functions are");
  }
  tools = tools_of(fields);
  if (tools.empty()) {
    tools = functions_of(fields);
    request.legacy_calls = !tools.empty();
  }
  if (std::ranges::any_of(tools, [](const Tool& tool) { return tool.name.empty(); }))
    refuse("field \"" + std::string(request.legacy_calls ? "functions" : "tools") +
           "\" has a function without a name");
}

}  // namespace

TextRequest decode_chat(std::string_view body) {
  const Fields fields = parse_body(body, "ChatCompletionRequest");
  TextRequest request = decode_common(fields, TextRoute::kChat);
  GenerationRequest& generation = request.generations.front();
  generation.kind = GenerationKind::kChat;
  request.best_of = request.n;
  generation.messages = decode_messages(fields);
  generation.prediction = prediction_of(fields);
  generation.think = think_of(fields);
  read_tools(fields, request);
  generation.tool_choice = tool_choice_of(fields, generation.tools);
  // The older form has room for only one call.
  if (request.legacy_calls) generation.tool_choice.parallel = false;
  generation.logprobs = fields.flag("logprobs").value_or(false);
  generation.top_logprobs = top_logprobs(fields, "top_logprobs");
  if (generation.model.empty()) refuse("model is required");
  return request;
}

std::unique_ptr<TextAnswer> chat_answer(Call& call, AnswerHead head, const TextRequest& request,
                                        SteadyNow now) {
  if (!request.stream) return std::make_unique<ChatObject>(call, std::move(head), request);
  return std::make_unique<ChatStream>(call, std::move(head), request, std::move(now));
}

}  // namespace billow::api::openai

#include "api/openai/responses_answer.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/fields.h"
#include "api/json_reader.h"
#include "api/openai/tokens_of_texts.h"
#include "api/random_id.h"
#include "base/json.h"
#include "http/sse.h"

namespace billow::api::openai {
namespace {

// The names in items and events of text.
struct TextForm {
  const char* item;    // the item's type
  const char* prefix;  // of the item's id
  const char* list;    // the member that contains the part
  const char* part;    // the part's type
  const char* part_added;
  const char* delta;
  const char* done;
  const char* part_done;
  const char* index;  // name of the part's index
};
constexpr TextForm kMessage{"message",
                            "msg_",
                            "content",
                            "output_text",
                            "response.content_part.added",
                            "response.output_text.delta",
                            "response.output_text.done",
                            "response.content_part.done",
                            "content_index"};
constexpr TextForm kReasoning{"reasoning",
                              "rs_",
                              "content",
                              "reasoning_text",
                              "response.content_part.added",
                              "response.reasoning_text.delta",
                              "response.reasoning_text.done",
                              "response.content_part.done",
                              "content_index"};
constexpr TextForm kSummary{"reasoning",
                            "rs_",
                            "summary",
                            "summary_text",
                            "response.reasoning_summary_part.added",
                            "response.reasoning_summary_text.delta",
                            "response.reasoning_summary_text.done",
                            "response.reasoning_summary_part.done",
                            "summary_index"};

// The names in items and events of calls, one row per CallForm. A local shell call is sent when it
// is complete.
struct CallKind {
  const char* item;    // the item's type
  const char* prefix;  // of the item's id
  const char* text;    // the member with the arguments or the input
  const char* delta;   // null: the call has no deltas
  const char* done;
};
constexpr CallKind kCalls[] = {
    {"function_call", "fc_", "arguments", "response.function_call_arguments.delta",
     "response.function_call_arguments.done"},
    {"custom_tool_call", "ctc_", "input", "response.custom_tool_call_input.delta",
     "response.custom_tool_call_input.done"},
    {"local_shell_call", "lsh_", nullptr, nullptr, nullptr},
};

Json logprob_json(const Logprob& logprob) {
  Json entry;
  entry["token"] = logprob.token;
  entry["bytes"] = Json::array();
  for (const char byte : logprob.bytes) entry["bytes"].push_back(static_cast<unsigned char>(byte));
  entry["logprob"] = logprob.logprob;
  return entry;
}

void append_logprobs(Json& list, const std::vector<Logprob>& logprobs) {
  for (const Logprob& logprob : logprobs) {
    Json entry = logprob_json(logprob);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& other : logprob.top) entry["top_logprobs"].push_back(logprob_json(other));
    list.push_back(std::move(entry));
  }
}

// An item that is not complete yet.
struct OpenItem {
  const TextForm* text_form = nullptr;  // set for text items
  CallShape shape{};                    // set for calls
  std::string id;
  std::string call_id{};
  std::string text{};
  Json logprobs = Json::array();

  bool is_message() const { return text_form == &kMessage; }
  const CallKind& kind() const { return kCalls[static_cast<size_t>(shape.form)]; }
};

Json part_json(const OpenItem& item) {
  Json part = {{"type", item.text_form->part}, {"text", item.text}};
  if (!item.is_message()) return part;
  part["annotations"] = Json::array();
  part["logprobs"] = item.logprobs;
  return part;
}

Json text_item_json(const OpenItem& item, const char* status, bool has_part) {
  const Json list = has_part ? Json::array({part_json(item)}) : Json::array();
  Json made = {{"id", item.id}, {"type", item.text_form->item}, {"status", status}};
  if (item.is_message())
    made["role"] = "assistant";
  else
    made["summary"] = Json::array();  // clients expect it, even if it is empty
  made[item.text_form->list] = list;
  return made;
}

// Returns the action of a shell call, from the arguments of its function.
Json action_json(const std::string& arguments) {
  const Json given = read_inner_json(arguments).value_or(nullptr);
  Json action = {{"type", "exec"}, {"command", Json::array()}, {"env", Json::object()}};
  for (const char* name : {"command", "working_directory", "timeout_ms"})
    if (given.is_object() && given.contains(name)) action[name] = given[name];
  return action;
}

Json call_item_json(const OpenItem& item, const char* status) {
  const CallKind& kind = item.kind();
  Json made = {{"id", item.id}, {"type", kind.item}, {"status", status}, {"call_id", item.call_id}};
  if (kind.text == nullptr) {
    made["action"] = action_json(item.text);
    return made;
  }
  made["name"] = item.shape.name;
  if (!item.shape.name_space.empty()) made["namespace"] = item.shape.name_space;
  made[kind.text] = item.text;
  return made;
}

Json item_json(const OpenItem& item, const char* status, bool has_part = true) {
  return item.text_form != nullptr ? text_item_json(item, status, has_part)
                                   : call_item_json(item, status);
}

Json usage_json(const Ending& ending) {
  Json usage;
  usage["input_tokens"] = ending.n_prompt;
  usage["input_tokens_details"]["cached_tokens"] = ending.n_cached;
  usage["input_tokens_details"]["cache_write_tokens"] = 0;  // caching is free
  usage["output_tokens"] = ending.n_generated;
  usage["output_tokens_details"]["reasoning_tokens"] = 0;  // not counted separately
  usage["total_tokens"] = ending.n_prompt + ending.n_generated;
  return usage;
}

class ResponseAnswer : public CallAnswer {
 public:
  ResponseAnswer(Call& call, AnswerHead head, const ResponseRequest& request, KeepResponse keep,
                 SteadyNow now)
      : CallAnswer(call),
        head_(std::move(head)),
        request_(request),
        keep_(std::move(keep)),
        now_(now),
        began_(now_()),
        stream_(call, std::move(now)) {}

  void still_working() override {
    if (!request_.stream) return;
    if (stream_.must_begin())
      stream_.begin(opening());
    else
      stream_.still_working();
  }

  bool holds_back() const override { return !request_.stream; }
  void restart(size_t) override {
    open_.reset();
    output_.clear();
    n_items_ = 0;
    logprobs_.clear();
  }

  bool delta(const Delta& delta) override {
    std::string text = opening() + comments(delta.notices);
    if (request_.shows_logprobs) logprobs_.add(delta.logprobs);
    for (const Event& event : joined(delta.events)) {
      std::vector<Logprob> own = logprobs_.take(event.text);
      if (event.kind != EventKind::kText) own.clear();
      add(text, event, own);
    }
    return request_.stream ? stream_.write(text) : !call_.stop().stop_requested();
  }

  bool end(const Ending& ending) override {
    const bool is_cut = is_cut_off(ending);
    std::string text = opening();
    leave(text, is_cut ? "incomplete" : "completed");
    Json response = response_json(is_cut ? "incomplete" : "completed");
    if (is_cut) response["incomplete_details"]["reason"] = "max_output_tokens";
    if (!is_cut) {
      const auto passed = std::chrono::floor<std::chrono::seconds>(now_() - began_);
      response["completed_at"] = head_.created + passed.count();
    }
    response["output"] = output_;
    response["usage"] = usage_json(ending);
    if (request_.stores) keep_(response, output_);
    if (!request_.stream) return respond(response);
    emit(text, is_cut ? "response.incomplete" : "response.completed", {{"response", response}});
    return stream_.finish(text);
  }

  bool fail(int status, std::string_view what) override {
    if (!stream_.has_begun()) return false;
    Json response = response_json("failed");
    response["output"] = output_;
    response["error"]["code"] = status < 500 ? "invalid_prompt" : "server_error";
    response["error"]["message"] = what;
    std::string text;
    emit(text, "response.failed", {{"response", std::move(response)}});
    return stream_.api::EventStream::fail(status, what, text);
  }

  // Never called: decode_response() requests no rendering.
  bool rendered(const std::string&, size_t) override { return false; }

 private:
  Json response_json(const char* status) const {
    Json response;
    response["id"] = head_.id;
    response["object"] = "response";
    response["created_at"] = head_.created;
    response["status"] = status;
    response["background"] = false;
    response["completed_at"] = nullptr;
    response["error"] = nullptr;
    response["incomplete_details"] = nullptr;
    response.update(request_.echo);
    return response;
  }

  // Returns the first events of a stream; nothing if the stream has them already.
  std::string opening() {
    std::string text;
    if (!request_.stream || std::exchange(is_opened_, true)) return text;
    const Json response = response_json("in_progress");
    emit(text, "response.created", {{"response", response}});
    emit(text, "response.in_progress", {{"response", response}});
    return text;
  }

  void emit(std::string& text, const char* type, const Json& fields) {
    if (!request_.stream) return;
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(fields);
    text += http::sse_event(to_text(event), type);
  }

  // Returns the place of the open item, the first fields of each of its events.
  Json place() const { return {{"item_id", open_->id}, {"output_index", n_items_}}; }
  Json part_place() const {
    Json at = place();
    at[open_->text_form->index] = 0;
    return at;
  }
  static Json with(Json fields, const char* name, Json value) {
    fields[name] = std::move(value);
    return fields;
  }
  Json item_fields(const char* status, bool has_part = true) const {
    return {{"output_index", n_items_}, {"item", item_json(*open_, status, has_part)}};
  }

  void add(std::string& text, const Event& event, const std::vector<Logprob>& logprobs) {
    switch (event.kind) {
      case EventKind::kThinking:
        return add_text(text, request_.shows_summary ? kSummary : kReasoning, event.text, logprobs);
      case EventKind::kText:
        return add_text(text, kMessage, event.text, logprobs);
      case EventKind::kCallBegin:
        return begin_call(text, event);
      case EventKind::kCallArguments:
        return add_arguments(text, event.text);
      case EventKind::kCallEnd:
        return end_call(text);
    }
  }

  void add_text(std::string& text, const TextForm& form, const std::string& piece,
                const std::vector<Logprob>& logprobs) {
    if (open_ && open_->text_form != &form) leave(text, "completed");
    if (!open_) {
      open_.emplace(OpenItem{.text_form = &form, .id = random_id(form.prefix, 24)});
      emit(text, "response.output_item.added", item_fields("in_progress", false));
      emit(text, form.part_added, with(part_place(), "part", part_json(*open_)));
    }
    open_->text += piece;
    Json fields = with(part_place(), "delta", piece);
    if (open_->is_message()) {
      Json list = Json::array();
      append_logprobs(list, logprobs);
      for (const Json& one : list) open_->logprobs.push_back(one);
      fields["logprobs"] = std::move(list);
    }
    emit(text, form.delta, fields);
  }

  void begin_call(std::string& text, const Event& event) {
    leave(text, "completed");
    const auto shape = request_.shapes.find(event.text);
    OpenItem item{
        .shape = shape != request_.shapes.end() ? shape->second : CallShape{.name = event.text},
        .id = "",
        .call_id = event.id};
    item.id = random_id(item.kind().prefix, 24);
    open_ = std::move(item);
    if (open_->kind().text != nullptr)
      emit(text, "response.output_item.added", item_fields("in_progress"));
  }

  void add_arguments(std::string& text, const std::string& piece) {
    open_->text += piece;
    if (open_->shape.form == CallForm::kFunction)
      emit(text, open_->kind().delta, with(place(), "delta", piece));
  }

  // Ends a call. Leaves out a command whose arguments are not a JSON object, so that nobody runs
  // it.
  void end_call(std::string& text) {
    const bool is_command = open_->kind().text == nullptr;
    const Json action =
        is_command ? read_inner_json(open_->text).value_or(nullptr) : Json::object();
    return action.is_object() ? close(text, "completed") : leave(text, "completed");
  }

  // Ends the open item, if there is one, because another item or the end follows. Drops a call,
  // which is broken or cut off, so that nobody runs it. If clients know the call, its place stays
  // empty.
  void leave(std::string& text, const char* status) {
    if (!open_) return;
    if (open_->text_form != nullptr) return close(text, status);
    if (open_->kind().text != nullptr) ++n_items_;
    open_.reset();
  }

  void close(std::string& text, const char* status) {
    if (open_->text_form != nullptr)
      close_text(text);
    else
      close_call(text);
    Json item = item_json(*open_, status);
    emit(text, "response.output_item.done", {{"output_index", n_items_++}, {"item", item}});
    output_.push_back(std::move(item));
    open_.reset();
  }

  void close_text(std::string& text) {
    const TextForm& form = *open_->text_form;
    Json fields = with(part_place(), "text", open_->text);
    if (open_->is_message()) fields["logprobs"] = open_->logprobs;
    emit(text, form.done, fields);
    emit(text, form.part_done, with(part_place(), "part", part_json(*open_)));
  }

  void close_call(std::string& text) {
    const CallKind& kind = open_->kind();
    if (kind.text == nullptr)
      return emit(text, "response.output_item.added", item_fields("in_progress"));
    if (open_->shape.form == CallForm::kCustom) {
      open_->text = custom_input(open_->text);
      emit(text, kind.delta, with(place(), "delta", open_->text));
    }
    emit(text, kind.done, with(place(), kind.text, open_->text));
  }

  const AnswerHead head_;
  const ResponseRequest& request_;
  const KeepResponse keep_;
  const SteadyNow now_;
  const metrics::Clock::time_point began_;
  EventStream stream_;
  bool is_opened_ = false;
  size_t sequence_ = 0;
  TokensOfTexts logprobs_;
  std::optional<OpenItem> open_;
  Json output_ = Json::array();  // completed items
  size_t n_items_ = 0;           // completed items, and calls that were dropped
};

}  // namespace

std::unique_ptr<CallAnswer> response_answer(Call& call, AnswerHead head,
                                            const ResponseRequest& request, KeepResponse keep,
                                            SteadyNow now) {
  return std::make_unique<ResponseAnswer>(call, std::move(head), request, std::move(keep),
                                          std::move(now));
}

}  // namespace billow::api::openai

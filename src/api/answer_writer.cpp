#include "api/answer_writer.h"

#include <utility>

#include "base/json.h"

namespace billow::api {
namespace {

using metrics::Clock;

constexpr size_t kBytesPerToken = 4;  // of common texts

Logprob logprob_of(const scheduler::TokenLogprob& from) {
  Logprob to{.token = from.token, .logprob = from.logprob, .bytes = from.bytes, .id = from.id};
  for (const scheduler::TokenLogprob& other : from.top) to.top.push_back(logprob_of(other));
  return to;
}

bool is_empty(const Delta& delta) {
  return delta.events.empty() && delta.logprobs.empty() && delta.notices.empty();
}

}  // namespace

bool wants_prompt_logprobs(const GenerationRequest& request) {
  return request.echo && request.logprobs;
}

AnswerForm form_of(const ServedModel& model, const GenerationRequest& request,
                   output::Format format, output::Start start) {
  AnswerForm form{
      .format = std::move(format), .start = std::move(start), .tools = {}, .options = {}};
  for (const Tool& tool : request.tools) {
    const Json* parameters = tool.parameters();
    form.tools.push_back({tool.name, parameters == nullptr ? "" : parameters->dump()});
  }
  form.options = {.whole_calls = request.whole_calls,
                  .parse_calls = request.tool_choice.use != ToolUse::kNone,
                  .thinks = request.think.enabled.value_or(model.can("thinking"))};
  return form;
}

AnswerWriter::AnswerWriter(const GenerationRequest& request, size_t n_prompt, AnswerForm form,
                           Sink& sink, metrics::Trace& trace,
                           std::function<void(const Json& event)> on_event)
    : request_(request),
      n_prompt_(n_prompt),
      form_(std::move(form)),
      parser_(new_parser()),
      sink_(sink),
      trace_(trace),
      on_event_(std::move(on_event)) {}

void AnswerWriter::restart() {
  parser_ = new_parser();
  only_call_.reset();
  first_.reset();
  has_begun_ = false;
  sink_.restart(0);
  if (!prompt_.empty()) echo(std::move(prompt_));
}

bool AnswerWriter::echo(std::string prompt) {
  prompt_ = std::move(prompt);
  return wants_prompt_logprobs(request_) || send_prompt({});
}

bool AnswerWriter::take(const scheduler::CompletionPiece& piece) {
  if (!piece.prompt_logprobs.empty() && !send_prompt(piece.prompt_logprobs)) return false;
  const Clock::time_point now = Clock::now();
  for (const scheduler::Prefill& chunk : piece.prefill)
    trace_.span("prefill", now - chunk.time, now, {{"tokens", chunk.n_done}});
  for (const std::string& event : piece.events) mark_event(event);
  const bool has_text = !piece.text.empty() || !piece.logprobs.empty();
  // The text of the first tokens may be held back until the end of the answer.
  const bool is_read = !piece.prefill.empty() && piece.prefill.back().n_done >= n_prompt_;
  if (!has_begun_ && (has_text || is_read)) {
    has_begun_ = true;
    sink_.begun();
  }
  if (!first_ && has_text) {
    first_ = now;
    if (!sink_.holds_back()) trace_.mark("first token");
  }
  Delta delta{.slot = slot_};
  n_bytes_ += piece.text.size();
  if (!piece.text.empty()) {
    std::vector<output::Mark> marks;
    for (const scheduler::TextMark& mark : piece.marks) marks.push_back({mark.offset, mark.length});
    parser_.add(piece.text, marks, delta.events);
    finish_events(delta);
  }
  for (const scheduler::TokenLogprob& entry : piece.logprobs)
    delta.logprobs.push_back(logprob_of(entry));
  if (request_.live_events) delta.notices = piece.events;
  if (is_empty(delta)) {
    sink_.still_working();
    return true;
  }
  return sink_.delta(delta);
}

bool AnswerWriter::finish(const scheduler::CompletionEnd& end) {
  Delta rest{.slot = slot_};
  const bool is_cut = request_.options.stop && !end.stop_string.empty() &&
                      !output::ends_calls(form_.format, end.stop_string);
  const bool is_whole = end.done_reason == "stop" && !is_cut;
  parser_.finish(is_whole ? output::FinishReason::kStop : output::FinishReason::kLength,
                 rest.events);
  finish_events(rest);
  return is_empty(rest) || sink_.delta(rest);
}

size_t AnswerWriter::n_tokens_about() const { return n_bytes_ / kBytesPerToken; }

bool AnswerWriter::send_prompt(const std::vector<scheduler::TokenLogprob>& logprobs) {
  Delta delta{.is_prompt = true, .slot = slot_};
  if (!prompt_.empty()) delta.events.push_back({EventKind::kText, 0, prompt_});
  for (const scheduler::TokenLogprob& entry : logprobs) delta.logprobs.push_back(logprob_of(entry));
  return is_empty(delta) || sink_.delta(delta);
}

output::Parser AnswerWriter::new_parser() const {
  return output::Parser(form_.format, form_.start, form_.tools, form_.options);
}

void AnswerWriter::finish_events(Delta& delta) {
  if (!request_.tool_choice.parallel) {
    std::erase_if(delta.events, [this](const Event& event) {
      const bool is_text = event.kind == EventKind::kText || event.kind == EventKind::kThinking;
      if (is_text) return false;
      if (!only_call_ && event.kind == EventKind::kCallEnd) only_call_ = event.call;
      return only_call_ && event.call != *only_call_;
    });
  }
  for (Event& event : delta.events)
    if (event.kind == EventKind::kCallBegin && event.id.empty()) event.id = new_call_id();
}

void AnswerWriter::mark_event(const std::string& text) {
  const Json event = Json::parse(text, nullptr, false);
  if (!event.is_object()) return;
  const auto type = event.find("type");
  trace_.mark(type != event.end() && type->is_string() ? type->get<std::string>() : "event", event);
  on_event_(event);
}

}  // namespace billow::api

#include "output/answer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "output/values.h"

namespace billow::output {

Tools::Tools(const std::vector<Tool>& tools) {
  for (const Tool& tool : tools) {
    names_.push_back(tool.name);
    if (!tool.parameters_json.empty())
      schemas_.emplace(tool.name, Json::parse(tool.parameters_json, nullptr, false));
  }
}

Tools::~Tools() = default;

bool Tools::has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

unsigned Tools::types_of(std::string_view tool, std::string_view argument) const {
  const auto schema = schemas_.find(tool);
  if (schema == schemas_.end() || !schema->second.is_object()) return 0;
  const auto properties = schema->second.find("properties");
  if (properties == schema->second.end() || !properties->is_object()) return 0;
  const auto property = properties->find(argument);
  return property == properties->end() ? 0 : types_in(*property, schema->second);
}

void Output::add(EventKind kind, std::string_view text) {
  if (kind == EventKind::kThinking && hides_thinking_) {
    hidden_ += text;
    return;
  }
  has_text_ = has_text_ || kind == EventKind::kText;
  if (events_.empty() || events_.back().kind != kind) events_.push_back({kind, 0, {}, {}});
  events_.back().text += text;
}

void Output::say(EventKind kind, char byte) {
  if (is_blank(static_cast<unsigned char>(byte))) {
    if (drops_blanks_) return;
    blanks_kind_ = kind;
    blanks_ += byte;
    return;
  }
  if (!blanks_.empty()) add(blanks_kind_, blanks_);
  blanks_.clear();
  drops_blanks_ = false;
  add(kind, {&byte, 1});
}

void Output::trim() {
  blanks_.clear();
  drops_blanks_ = true;
}

void Output::begin_call(const std::string& name, const std::string& id) {
  events_.push_back({EventKind::kCallBegin, n_calls_, name, id});
}

void Output::arguments(std::string_view text) {
  if (events_.empty() || events_.back().kind != EventKind::kCallArguments)
    events_.push_back({EventKind::kCallArguments, n_calls_, {}, {}});
  events_.back().text += text;
}

void Output::end_call() { events_.push_back({EventKind::kCallEnd, n_calls_++, {}, {}}); }

bool Output::speak() {
  for (const Attempt* attempt : attempts_)
    if (attempt->kind_ == Attempt::Kind::kFirm) return false;
  for (Attempt* attempt : attempts_) attempt->speak();
  trim();
  return true;
}

void Output::finish() {
  const bool is_text = blanks_kind_ == EventKind::kText && n_calls_ == 0;
  if (is_text && !blanks_.empty()) add(blanks_kind_, blanks_);
  blanks_.clear();
  if (hidden_.empty() || has_text_ || n_calls_ > 0) return;
  add(EventKind::kText, std::exchange(hidden_, {}));
}

void Output::deliver(std::vector<Event>& out, bool is_last) {
  size_t n = events_.size();
  for (const Attempt* attempt : attempts_)
    if (!attempt->has_spoken_) n = std::min(n, attempt->n_events_ - n_delivered_);
  if (n == 0) return;
  std::string tail;
  EventKind tail_kind = events_[n - 1].kind;
  size_t tail_call = events_[n - 1].call;
  if (!is_last && n == events_.size()) {
    std::string& text = events_[n - 1].text;
    const size_t n_whole = utf8::whole_length(text);
    tail = text.substr(n_whole);
    text.resize(n_whole);
  }
  for (size_t i = 0; i < n; ++i) {
    const bool is_empty = events_[i].text.empty() && events_[i].kind != EventKind::kCallBegin &&
                          events_[i].kind != EventKind::kCallEnd;
    if (!is_empty) out.push_back(std::move(events_[i]));
  }
  events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(n));
  n_delivered_ += n;
  if (tail.empty()) return;
  events_.insert(events_.begin(), {tail_kind, tail_call, std::move(tail), {}});
  --n_delivered_;
}

Attempt::Attempt(Answer& answer, Kind kind)
    : answer_(answer),
      kind_(kind),
      position_(answer.tape.position()),
      n_events_(answer.output.count()),
      n_calls_(answer.output.n_calls_) {
  answer_.tape.hold();
  answer_.output.attempts_.push_back(this);
}

Attempt::~Attempt() {
  if (is_open_) close();
}

void Attempt::speak() {
  if (!has_spoken_) answer_.tape.release();
  has_spoken_ = true;
}

void Attempt::close() {
  is_open_ = false;
  answer_.output.attempts_.pop_back();
  if (!has_spoken_) answer_.tape.release();
}

void Attempt::accept() {
  const bool is_outermost = answer_.output.attempts_.size() == 1;
  const bool has_made = answer_.output.count() > n_events_;
  close();
  if (is_outermost && has_made) answer_.output.trim();
}

void Attempt::refuse() {
  BILLOW_CHECK(!has_spoken_);
  Output& output = answer_.output;
  output.events_.resize(n_events_ - output.n_delivered_, {EventKind::kText, 0, {}, {}});
  output.n_calls_ = n_calls_;
  answer_.tape.seek(position_);
  close();
}

bool CallWriter::name(std::string_view text) {
  if (text.empty() || has_name_) return false;
  is_ignored_ = std::find(ignored_.begin(), ignored_.end(), text) != ignored_.end();
  // Undeclared tools may be called, so that the client can report the error. But the name must look
  // like a name, not like text.
  const bool is_name = text.find_first_of(" \t\r\n<>{}[]()\"'`") == text.npos;
  if (!answer_.tools.has(text) && (answer_.must_declare || !is_name)) return false;
  name_ = text;
  has_name_ = true;
  if (!has_arguments_ || is_late_ || is_ignored_) return true;
  begin();
  answer_.output.arguments(std::exchange(waiting_, {}));
  return true;
}

void CallWriter::append(std::string_view text) {
  has_arguments_ = true;
  if (is_ignored_) return;
  if (!has_name_ || is_late_) {
    waiting_ += text;
    return;
  }
  begin();
  answer_.output.arguments(text);
}

void CallWriter::key(std::string_view key) {
  append((has_keys_ ? ", " : "{") + quoted(key) + ": ");
  has_keys_ = true;
}

void CallWriter::end_keys() {
  if (has_keys_) append("}");
}

bool CallWriter::end() {
  if (!has_name_) return false;
  if (is_ignored_) return true;
  if (!has_arguments_) waiting_ = "{}";
  if (answer_.whole_calls && !is_json_object(waiting_)) return false;
  begin();
  if (!waiting_.empty()) answer_.output.arguments(waiting_);
  answer_.output.end_call();
  answer_.output.speak();
  return true;
}

void CallWriter::cut() {
  if (is_ignored_) return;
  begin();
  if (!waiting_.empty()) answer_.output.arguments(waiting_);
}

void CallWriter::leave() {
  if (has_begun_) answer_.output.leave_call();
}

void CallWriter::begin() {
  if (has_begun_) return;
  has_begun_ = true;
  answer_.output.begin_call(name_, id_);
  if (!is_late_) has_spoken_ = answer_.output.speak();
}

Found give_up(Answer& answer, CallWriter& call, Attempt& attempt) {
  if (!answer.must_declare && answer.tape.has_met_cut() && call.has_name()) {
    call.cut();
    call.leave();
    attempt.accept();
    return Found::kBroken;
  }
  if (!attempt.has_spoken()) {
    attempt.refuse();
    return Found::kNothing;
  }
  call.leave();
  attempt.accept();
  return Found::kBroken;
}

}  // namespace billow::output

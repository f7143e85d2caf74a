#include "metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::metrics {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kFirstSpans = kMaxSpans - kLatestSpans;

std::string text_of(const Json& attributes) {
  if (attributes.is_null()) return {};
  const Json object = attributes.is_object() ? attributes : Json{{"value", attributes}};
  std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() <= kMaxAttributeBytes) return text;
  return fmt::format(R"({{"left_out_bytes":{}}})", text.size());
}

std::string utc_text(std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(micros);
  const std::time_t clock = std::chrono::system_clock::to_time_t(seconds);
  std::tm utc{};
  ::gmtime_r(&clock, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     (micros - seconds).count());
}

double micros_of(nanoseconds time) { return static_cast<double>(time.count()) / 1e3; }

// Assigns spans to tracks so that any two spans of a track are disjoint or nested. Spans must come
// sorted by `begin`; with equal `begin`, the longest first.
class Tracks {
 public:
  // Returns the number of the track, from 1.
  size_t place(nanoseconds begin, nanoseconds end) {
    for (size_t i = 0;; ++i) {
      if (i == open_.size()) open_.emplace_back();
      std::vector<nanoseconds>& ends = open_[i];
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      if (!ends.empty() && ends.back() < end) continue;
      ends.push_back(end);
      return i + 1;
    }
  }
  size_t size() const noexcept { return open_.size(); }

 private:
  std::vector<std::vector<nanoseconds>>
      open_;  // per track: the ends of open spans, the innermost last
};

Json chrome_name(const char* what, size_t track, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

Json chrome_event(const Span& span, size_t track) {
  Json event = {{"name", span.name}, {"cat", "request"}};
  event["ph"] = span.end > span.begin ? "X" : "i";
  event["ts"] = micros_of(span.begin);
  if (span.end > span.begin) {
    event["dur"] = micros_of(span.end - span.begin);
  } else {
    event["s"] = "t";  // drawn on its track only
  }
  event["pid"] = 1;
  event["tid"] = track;
  if (!span.attributes.empty()) event["args"] = Json::parse(span.attributes);
  return event;
}

}  // namespace

std::string bounded_error(std::string_view error) {
  const auto cut = [](std::string_view text) {
    const std::string_view part = text.substr(0, kMaxErrorBytes);
    return part.size() < text.size() ? part.substr(0, utf8::whole_length(part)) : part;
  };
  const std::string_view begin = cut(error);
  const std::string text = utf8::sanitized(begin);  // can be longer
  const std::string_view shown = cut(text);
  const bool is_whole = begin.size() == error.size() && shown.size() == text.size();
  return std::string(shown) + (is_whole ? "" : "...");
}

Trace::Trace(std::string id, std::string route, std::string node)
    : id_(std::move(id)),
      route_(utf8::sanitized(route)),
      node_(utf8::sanitized(node)),
      began_(Clock::now()),
      began_at_(std::chrono::system_clock::now()) {}

void Trace::set_key(std::string_view name, uint32_t weight) {
  const std::lock_guard lock(mutex_);
  key_ = utf8::sanitized(name);
  weight_ = weight;
}

uint32_t Trace::weight() const {
  const std::lock_guard lock(mutex_);
  return weight_;
}

std::string Trace::key() const {
  const std::lock_guard lock(mutex_);
  return key_;
}

void Trace::set_model(std::string_view model) {
  const std::lock_guard lock(mutex_);
  model_ = utf8::sanitized(model);
}

void Trace::add_usage(const Usage& usage) {
  const std::lock_guard lock(mutex_);
  if (!usage_) usage_.emplace();
  usage_->n_prompt += usage.n_prompt;
  usage_->n_cached += usage.n_cached;
  usage_->n_generated += usage.n_generated;
  for (const std::string& reason : usage.done_reasons)
    usage_->done_reasons.push_back(utf8::sanitized(reason));
}

Usage Trace::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_.value_or(Usage());
}

std::optional<TraceParent> Trace::parent() const {
  const std::lock_guard lock(mutex_);
  return parse_traceparent(parent_);
}

size_t Trace::n_spans() const {
  const std::lock_guard lock(mutex_);
  return spans_.size();
}

size_t Trace::n_collector_spans() const {
  const std::lock_guard lock(mutex_);
  return 1 + static_cast<size_t>(std::ranges::count_if(
                 spans_, [](const Span& span) { return span.end > span.begin; }));
}

bool Trace::set_parent(std::string_view traceparent) {
  if (!parse_traceparent(traceparent)) return false;
  const std::lock_guard lock(mutex_);
  parent_ = traceparent.substr(0, kTraceParentBytes);
  return true;
}

void Trace::mark(std::string_view name) {
  const auto now = Clock::now();
  add(name, now, now, {});
}

void Trace::mark(std::string_view name, const Json& attributes) {
  const auto now = Clock::now();
  add(name, now, now, text_of(attributes));
}

void Trace::span(std::string_view name, Clock::time_point begin, Clock::time_point end) {
  add(name, begin, end, {});
}

void Trace::span(std::string_view name, Clock::time_point begin, Clock::time_point end,
                 const Json& attributes) {
  add(name, begin, end, text_of(attributes));
}

void Trace::add(std::string_view name, Clock::time_point begin, Clock::time_point end,
                std::string attributes) {
  Span span{utf8::sanitized(name), begin - began_, std::max(begin, end) - began_,
            std::move(attributes)};
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  if (spans_.size() < kMaxSpans) {
    spans_.push_back(std::move(span));
  } else {
    spans_[kFirstSpans + (n_spans_ - kFirstSpans) % kLatestSpans] = std::move(span);
  }
  ++n_spans_;
}

void Trace::finish(int status, std::string_view error) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  finished_ = true;
  duration_ = Clock::now() - began_;
  status_ = status;
  error_ = bounded_error(error);
}

nanoseconds Trace::length() const { return finished_ ? duration_ : Clock::now() - began_; }

std::vector<const Span*> Trace::ordered() const {
  std::vector<const Span*> spans;
  for (const Span& span : spans_) spans.push_back(&span);
  std::ranges::sort(spans, [](const Span* a, const Span* b) {
    if (a->begin != b->begin) return a->begin < b->begin;
    return a->end != b->end ? a->end > b->end : a < b;
  });
  return spans;
}

Json Trace::head() const {
  Json json = {{"id", id_}, {"node", node_}, {"route", route_}};
  if (!model_.empty()) json["model"] = model_;
  if (!key_.empty()) json["key"] = key_;
  if (!parent_.empty()) json["traceparent"] = parent_;
  json["began_at"] = utc_text(began_at_);
  json["duration"] = length().count();
  if (finished_) json["status"] = status_;
  if (!error_.empty()) json["error"] = error_;
  return json;
}

Json Trace::summary() const {
  const std::lock_guard lock(mutex_);
  Json json = head();
  for (const char* detail : {"node", "traceparent", "error"}) json.erase(detail);
  return json;
}

TraceRecord Trace::record() const {
  const std::lock_guard lock(mutex_);
  BILLOW_CHECK(finished_);
  TraceRecord record{.id = id_,
                     .route = route_,
                     .node = node_,
                     .model = model_,
                     .parent = parse_traceparent(parent_),
                     .began_at = began_at_,
                     .duration = duration_,
                     .status = status_,
                     .n_left_out = n_spans_ - spans_.size(),
                     .usage = usage_};
  for (const Span* span : ordered()) record.spans.push_back(*span);
  return record;
}

Json Trace::to_json() const {
  const std::lock_guard lock(mutex_);
  Json json = head();
  Json& spans = json["spans"] = Json::array();
  for (const Span* span : ordered()) {
    Json one = {{"name", span->name}, {"begin", span->begin.count()}, {"end", span->end.count()}};
    if (!span->attributes.empty()) one["attributes"] = Json::parse(span->attributes);
    spans.push_back(std::move(one));
  }
  if (n_spans_ > spans_.size()) json["left_out"] = n_spans_ - spans_.size();
  return json;
}

Json Trace::to_chrome_json() const {
  const std::lock_guard lock(mutex_);
  Json events = Json::array();
  Tracks tracks;
  std::vector<const Span*> spans = ordered();
  const Span whole{route_, nanoseconds::zero(), length(), {}};
  spans.insert(
      std::ranges::find_if(spans, [&](const Span* span) { return span->begin >= whole.begin; }),
      &whole);
  for (const Span* span : spans) {
    events.push_back(chrome_event(*span, tracks.place(span->begin, span->end)));
  }
  Json names = Json::array();
  names.push_back(chrome_name("process_name", 0, "billow " + node_));
  for (size_t i = 1; i <= tracks.size(); ++i) {
    names.push_back(chrome_name("thread_name", i, i == 1 ? id_ : fmt::format("{} ({})", id_, i)));
  }
  events.insert(events.begin(), names.begin(), names.end());
  Json other = head();
  if (n_spans_ > spans_.size()) other["left_out"] = n_spans_ - spans_.size();
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ms"},
          {"otherData", std::move(other)}};
}

std::shared_ptr<Trace> TraceStore::start(const std::string& id, std::string route,
                                         std::string node) {
  const std::lock_guard lock(mutex_);
  ++n_started_;
  const std::string name = traces_.contains(id) ? fmt::format("{}~{}", id, n_started_) : id;
  auto trace = std::make_shared<Trace>(name, std::move(route), std::move(node));
  if (n_kept_ == 0) return trace;
  traces_[name] = trace;
  order_.push_back(name);
  if (order_.size() > n_kept_) {
    traces_.erase(order_.front());
    order_.pop_front();
  }
  return trace;
}

std::shared_ptr<const Trace> TraceStore::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = traces_.find(id);
  return found == traces_.end() ? nullptr : found->second;
}

std::vector<std::string> TraceStore::ids() const {
  const std::lock_guard lock(mutex_);
  return {order_.rbegin(), order_.rend()};
}

Json TraceStore::list(size_t n_max) const {
  std::vector<std::shared_ptr<const Trace>> latest;
  {
    const std::lock_guard lock(mutex_);
    for (auto id = order_.rbegin(); id != order_.rend() && latest.size() < n_max; ++id) {
      latest.push_back(traces_.at(*id));
    }
  }
  Json traces = Json::array();
  for (const auto& trace : latest) traces.push_back(trace->summary());
  return {{"traces", std::move(traces)}};
}

}  // namespace billow::metrics

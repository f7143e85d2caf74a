// The way of one request through the program: moments and spans with names, times and attributes,
// kept for a while under the request's id. A trace is shared by those who write into it and the
// store; any thread may call.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_fwd.h"
#include "metrics/request_id.h"

namespace billow::metrics {

using Clock = std::chrono::steady_clock;  // one for all processes of a machine

inline constexpr size_t kMaxSpans = 4096;           // that a trace keeps
inline constexpr size_t kLatestSpans = 64;          // of these, where there were more
inline constexpr size_t kMaxAttributeBytes = 4096;  // of a span, as JSON

struct Span {
  std::string name;
  std::chrono::nanoseconds begin{};  // since the trace began
  std::chrono::nanoseconds end{};    // equal to `begin` for a moment
  std::string attributes;            // a JSON object as text: {"tokens":512}
};

class Trace {
 public:
  // `route`: "/api/chat"; `node`: of this host.
  Trace(std::string id, std::string route, std::string node);

  const std::string& id() const noexcept { return id_; }
  Clock::time_point began() const noexcept { return began_; }
  const std::string& route() const noexcept { return route_; }

  // The model that it is about, as shown.
  void set_model(std::string_view model);
  // The `traceparent` header that came with it; false, and nothing is kept, if it is none.
  bool set_parent(std::string_view traceparent);

  // A moment: now. `attributes` is an object; any other value but null becomes {"value":it}, and
  // one of more than kMaxAttributeBytes {"left_out_bytes":N}.
  void mark(std::string_view name);
  void mark(std::string_view name, const Json& attributes);
  // An end before the beginning is taken for the beginning.
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end);
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end,
            const Json& attributes);
  // The request is over; later ones are disregarded. `error` is for people.
  void finish(int status, std::string_view error = {});

  // {"id","node","route","model"?,"traceparent"?,"began_at","duration","status"?,"error"?,
  // "spans":[{"name","begin","end","attributes"?}],"left_out"?}: nanoseconds, spans by their
  // beginning. "began_at" is RFC 3339 in UTC; "duration" is up to now while the request runs, which
  // has no "status" then. "left_out": how many spans there were beside these.
  Json to_json() const;
  // What a list tells of it: {"id","route","model"?,"began_at","duration","status"?}.
  Json summary() const;
  // The same as to_json for chrome://tracing and Perfetto: {"traceEvents":[...],
  // "displayTimeUnit":"ms","otherData":{...}}, with times in microseconds since the trace began.
  // Spans that overlap without lying in one another stand on tracks of their own.
  Json to_chrome_json() const;

 private:
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end,
           std::string attributes);
  // With mutex_ held, all three.
  Json head() const;
  std::chrono::nanoseconds length() const;
  std::vector<const Span*> ordered() const;

  const std::string id_;
  const std::string route_;
  const std::string node_;
  const Clock::time_point began_;
  const std::chrono::system_clock::time_point began_at_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;  // the first ones, and from kMaxSpans - kLatestSpans on the latest
  size_t n_spans_ = 0;       // that there were
  bool finished_ = false;
  std::chrono::nanoseconds duration_{};
  int status_ = 0;
  std::string model_;
  std::string parent_;
  std::string error_;
};

// Keeps the latest traces, each under a name of its own: clients choose the ids of their requests,
// and no request may take the place of another's trace.
class TraceStore {
 public:
  explicit TraceStore(size_t n_kept) : n_kept_(n_kept) {}
  // A trace whose id is `id`; where a trace of that id is kept, `id~N`, with the number of traces
  // begun so far. '~' is in no id of a client.
  std::shared_ptr<Trace> start(const std::string& id, std::string route, std::string node);
  std::shared_ptr<const Trace> find(const std::string& id) const;  // null if there is none
  std::vector<std::string> ids() const;                            // latest first
  // {"traces":[...]}: the summaries of at most `n_max` traces, latest first.
  Json list(size_t n_max) const;

 private:
  const size_t n_kept_;
  size_t n_started_ = 0;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Trace>> traces_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace billow::metrics

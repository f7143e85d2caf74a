// A trace records one request: moments and spans with names, times and attributes. TraceStore keeps
// recent traces under their request ids. The writers and the store share a trace. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_fwd.h"
#include "metrics/request_id.h"

namespace billow::metrics {

using Clock = std::chrono::steady_clock;  // the same clock for all processes of a machine

inline constexpr size_t kMaxSpans = 4096;  // max spans in a trace
inline constexpr size_t kLatestSpans =
    64;  // of these, reserved for the latest spans if a trace has more
inline constexpr size_t kMaxAttributeBytes = 4096;  // per span, as JSON
inline constexpr size_t kMaxErrorBytes = 2048;      // of an error text, without the mark of a cut

// Returns an error text as valid UTF-8. Errors can repeat what a client has sent, so a text of more
// than kMaxErrorBytes is cut and ends with "...".
std::string bounded_error(std::string_view error);

struct Span {
  std::string name;
  std::chrono::nanoseconds begin{};  // since the start of the trace
  std::chrono::nanoseconds end{};    // equal to `begin` for a moment
  std::string attributes;            // a JSON object as text: {"tokens":512}
};

// What the model read and wrote for a request.
struct Usage {
  size_t n_prompt = 0;
  size_t n_cached = 0;  // tokens of the prompt that were cached
  size_t n_generated = 0;
  std::vector<std::string> done_reasons{};  // one per answer that came to its end

  size_t n_evaluated() const noexcept {
    return n_prompt - (n_cached < n_prompt ? n_cached : n_prompt);
  }
};

// A copy of a finished trace.
struct TraceRecord {
  std::string id;
  std::string route;
  std::string node;
  std::string model;                    // empty: unknown
  std::optional<TraceParent> parent{};  // of the client
  std::chrono::system_clock::time_point began_at{};
  std::chrono::nanoseconds duration{};
  int status = 0;
  std::vector<Span> spans{};  // sorted by `begin`
  size_t n_left_out = 0;      // spans that were dropped
  std::optional<Usage> usage{};
};

class Trace {
 public:
  // `route` is a pattern such as "/api/chat"; `node` is the name of this host.
  Trace(std::string id, std::string route, std::string node);

  const std::string& id() const noexcept { return id_; }
  Clock::time_point began() const noexcept { return began_; }
  const std::string& route() const noexcept { return route_; }

  // Sets the name and the weight of the API key that the request has. The name is empty if the
  // server has no keys.
  void set_key(std::string_view name, uint32_t weight = 1);
  std::string key() const;
  uint32_t weight() const;

  // Sets the display name of the request's model.
  void set_model(std::string_view model);
  // Stores the `traceparent` header of the request, without the fields of future versions. Returns
  // false and stores nothing if the header is malformed.
  bool set_parent(std::string_view traceparent);

  // Adds the tokens of an answer to those of the request. Not part of the JSON.
  void add_usage(const Usage& usage);
  Usage usage() const;
  // Returns the `traceparent` of the request, if it is valid.
  std::optional<TraceParent> parent() const;
  size_t n_spans() const;  // number of stored spans, moments included
  // Returns the number of spans as a collector counts them: the request's and those that are no
  // moments.
  size_t n_collector_spans() const;

  // Records a moment at the current time. `attributes` is a JSON object. Any other value except
  // null becomes {"value":it}. An object larger than kMaxAttributeBytes becomes
  // {"left_out_bytes":N}.
  void mark(std::string_view name);
  void mark(std::string_view name, const Json& attributes);
  // Records a span. If `end` is before `begin`, the span ends at `begin`.
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end);
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end,
            const Json& attributes);
  // Ends the trace. Later calls of finish() and later spans are ignored. `error` is for people, and
  // bounded_error() cuts it.
  void finish(int status, std::string_view error = {});

  // Returns
  // {"id","node","route","model"?,"key"?,"traceparent"?,"began_at","duration","status"?,"error"?,
  // "spans":[{"name","begin","end","attributes"?}],"left_out"?}. Times are in nanoseconds; spans
  // are sorted by `begin`. "began_at" is RFC 3339 in UTC. While the request runs, "duration" ends
  // at the current time and "status" is absent. "left_out" is the number of spans that were
  // dropped.
  Json to_json() const;
  // Returns a list entry: {"id","route","model"?,"key"?,"began_at","duration","status"?}.
  Json summary() const;
  // REQUIRES: finish() was called.
  TraceRecord record() const;
  // Returns the trace in the format of chrome://tracing and Perfetto: {"traceEvents":[...],
  // "displayTimeUnit":"ms","otherData":{...}}. Times are in microseconds since the start of the
  // trace. Spans that overlap without nesting are on separate tracks.
  Json to_chrome_json() const;

 private:
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end,
           std::string attributes);
  // REQUIRES: mutex_ is held, for the next three functions.
  Json head() const;
  std::chrono::nanoseconds length() const;
  std::vector<const Span*> ordered() const;

  const std::string id_;
  const std::string route_;
  const std::string node_;
  const Clock::time_point began_;
  const std::chrono::system_clock::time_point began_at_;
  mutable std::mutex mutex_;
  std::vector<Span>
      spans_;  // the first spans; from index kMaxSpans - kLatestSpans on, a ring of the latest
  size_t n_spans_ = 0;  // all recorded spans
  bool finished_ = false;
  std::chrono::nanoseconds duration_{};
  int status_ = 0;
  std::string key_;
  uint32_t weight_ = 1;  // of the key
  std::string model_;
  std::string parent_;
  std::optional<Usage> usage_;
  std::string error_;
};

// Keeps the latest traces under unique names. Clients choose the ids of their requests, and a
// request must not replace the trace of another request.
class TraceStore {
 public:
  explicit TraceStore(size_t n_kept) : n_kept_(n_kept) {}
  // Starts a trace. Its name is `id`, or `id~N` if the store has a trace with this id. N is the
  // number of traces started so far. Client ids cannot contain '~'.
  std::shared_ptr<Trace> start(const std::string& id, std::string route, std::string node);
  std::shared_ptr<const Trace> find(const std::string& id) const;  // null if there is none
  std::vector<std::string> ids() const;                            // latest first
  // Returns {"traces":[...]} with the summaries of at most `n_max` traces, latest first.
  Json list(size_t n_max) const;

 private:
  const size_t n_kept_;
  size_t n_started_ = 0;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Trace>> traces_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace billow::metrics

// The way of one request through the program: moments and spans with names, times and attributes,
// kept for a while under the request's id. Any thread.
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

namespace billow::metrics {

using Clock = std::chrono::steady_clock;

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

  // A moment: now.
  void mark(std::string_view name);
  void mark(std::string_view name, const Json& attributes);
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end);
  void span(std::string_view name, Clock::time_point begin, Clock::time_point end,
            const Json& attributes);
  // The request is over; later ones are disregarded.
  void finish(int status, std::string_view error = {});

  // {"id","node","route","model"?,"began_at","duration","status"?,"error"?,"spans":[{"name","begin",
  // "end","attributes"?}]}: nanoseconds, spans by their beginning.
  Json to_json() const;
  // The same for chrome://tracing and Perfetto: {"traceEvents":[...],"displayTimeUnit":"ms"}.
  Json to_chrome_json() const;

 private:
  void add(std::string_view name, Clock::time_point begin, Clock::time_point end,
           std::string attributes);

  const std::string id_;
  const std::string route_;
  const std::string node_;
  const Clock::time_point began_;
  const std::chrono::system_clock::time_point began_at_;
  mutable std::mutex mutex_;
  std::vector<Span> spans_;  // at most kMostSpans; the last one tells how many were left out
  bool finished_ = false;
  std::chrono::nanoseconds duration_{};
  int status_ = 0;
  std::string error_;
};

// Keeps the latest traces.
class TraceStore {
 public:
  explicit TraceStore(size_t n_kept) : n_kept_(n_kept) {}
  // A trace of that id, in the place of an older one.
  std::shared_ptr<Trace> start(const std::string& id, std::string route, std::string node);
  std::shared_ptr<const Trace> find(const std::string& id) const;  // null if there is none
  std::vector<std::string> ids() const;                            // latest first

 private:
  const size_t n_kept_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Trace>> traces_;
  std::deque<std::string> order_;
};

// "[A-Za-z0-9._-]{1,128}"
bool is_request_id(std::string_view text) noexcept;
// 16 random bytes in hexadecimal digits.
std::string new_request_id();

}  // namespace billow::metrics

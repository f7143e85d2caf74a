// Sends finished traces to a collector of OpenTelemetry. A thread takes them from a bounded queue
// and sends them in batches. If the collector is slow or down, it retries, and traces that find no
// place in the queue are lost. Requests never wait. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/message.h"
#include "metrics/metrics.h"
#include "metrics/otlp.h"
#include "metrics/trace.h"

namespace billow::server {

// The reply of a collector.
struct CollectorReply {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after{};
  std::string body{};
};
// Sends a body to the collector and returns its reply. Throws Error if there is none, and promptly
// if `stop` is set.
using SendTraces = std::function<CollectorReply(const std::string& body, std::stop_token stop)>;

struct CollectorOptions {
  std::string url;  // http or https; empty: traces are not sent
  // Header fields of each request, such as Authorization.
  http::Headers headers{};
  std::string ca_file{};  // trusted certificates, in addition to the system's
};

// Returns the address that receives traces: `url` with the path /v1/traces, unless `url` has this
// path already. Throws Error (kInvalidInput) if it is not an http or https URL.
std::string traces_url(std::string_view url);

// Parses "name=value,name=value", the form of OTEL_EXPORTER_OTLP_HEADERS, with percent-encoding.
// Throws Error (kInvalidInput) that does not repeat the values: they can be secret.
http::Headers collector_headers(std::string_view text);

// Sends to the collector with libcurl. Throws Error if the URL is wrong or libcurl cannot start.
SendTraces sender_to(const CollectorOptions& options, const std::string& version);

struct ExportLimits {
  size_t max_traces = 1024;                // that wait
  size_t max_spans = 65'536;               // of the traces that wait
  size_t batch_spans = 2048;               // a batch ends with the trace that reaches this number
  std::chrono::milliseconds delay{1'000};  // how long a trace waits for others
  std::chrono::milliseconds min_pause{
      1'000};  // before the first retry; doubled for each further one
  std::chrono::milliseconds max_pause{30'000};
  std::chrono::milliseconds give_up{300'000};   // a batch is lost after this time
  std::chrono::milliseconds flush_time{5'000};  // at the end
  std::chrono::milliseconds log_every{60'000};
};

class TraceExporter {
 public:
  // `name` is the collector's address in log lines.
  TraceExporter(metrics::OtlpResource resource, std::string name, SendTraces send,
                const ExportLimits& limits = {});
  // Sends what waits, for at most flush_time. The rest is lost and logged.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // Takes a finished trace. Does nothing if its client did not want it to be recorded (the flag in
  // `traceparent`). Returns immediately. REQUIRES: finish() was called.
  void take(std::shared_ptr<const metrics::Trace> trace);
  metrics::SpanCounts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Batch = std::vector<metrics::OtlpTrace>;
  using Count = uint64_t metrics::SpanCounts::*;
  struct Waiting {
    std::shared_ptr<const metrics::Trace> trace;
    size_t n_spans = 0;  // moments included, because they need memory, too
  };

  void run();
  Batch next();
  void deliver(const Batch& batch);
  std::optional<CollectorReply> attempt(const std::string& body, std::string& why);
  bool pause(std::chrono::milliseconds time);
  void take_reply(const CollectorReply& reply, uint64_t n_spans);
  void lose(Count count, uint64_t n, const std::string& why);
  void warn(const std::string& why, bool is_failing);

  const metrics::OtlpResource resource_;
  const std::string name_;
  const SendTraces send_;
  const ExportLimits limits_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  size_t n_waiting_spans_ = 0;
  metrics::SpanCounts counts_;
  uint64_t n_lost_unlogged_ = 0;
  std::optional<Clock::time_point> logged_at_;
  bool is_failing_ = false;  // the last attempt failed, and a line of the log says so
  bool is_ending_ = false;
  bool has_ended_ = false;
  std::stop_source cut_;  // ends the running request
  std::thread thread_;    // the last member: it uses all others
};

}  // namespace billow::server

#include "server/trace_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/one_line.h"
#include "base/text.h"
#include "http/url.h"
#include "registry/origin.h"
#include "registry/transport.h"

namespace billow::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kPath = "/v1/traces";
constexpr uint64_t kMaxReplyBytes = uint64_t{64} << 10;
constexpr size_t kMaxWhyBytes = 300;
constexpr milliseconds kTimeout{10'000};  // to connect, and max time without a byte

// Returns whether the protocol (OTLP/HTTP) allows a retry after this status.
bool may_retry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns how many spans the collector rejected, if it accepted the others.
uint64_t rejected_spans(const std::string& body) {
  const Json reply = Json::parse(body, nullptr, false);
  if (!reply.is_object() || !reply.contains("partialSuccess")) return 0;
  const Json& part = reply["partialSuccess"];
  if (!part.is_object() || !part.contains("rejectedSpans")) return 0;
  const Json& count = part["rejectedSpans"];
  if (count.is_number_unsigned()) return count.get<uint64_t>();
  return count.is_string() ? number_of<uint64_t>(count.get_ref<const std::string&>()).value_or(0)
                           : 0;
}

// Returns a random time from time / 2 to `time`, so that servers do not all retry at the same time.
milliseconds spread(milliseconds time) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return milliseconds(
      std::uniform_int_distribution<int64_t>(time.count() / 2, time.count())(random));
}

}  // namespace

std::string traces_url(std::string_view url) {
  if (!registry::origin_of(url) || url.find_first_of("?#") != std::string_view::npos) {
    throw Error(ErrorCode::kInvalidInput,
                "--otlp must be the address of a collector, like http://127.0.0.1:4318, not '" +
                    std::string(url) + "'");
  }
  while (url.ends_with('/')) url.remove_suffix(1);
  return std::string(url) + (url.ends_with(kPath) ? "" : std::string(kPath));
}

http::Headers collector_headers(std::string_view text) {
  http::Headers headers;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view field = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (field.empty()) continue;
    const size_t equals = field.find('=');
    const auto value = equals == std::string_view::npos
                           ? std::nullopt
                           : http::percent_decoded(trimmed(field.substr(equals + 1)));
    const std::string name(trimmed(field.substr(0, equals)));
    if (!value || name.empty() || !std::ranges::all_of(*value, [](char c) {
          return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
        })) {
      throw Error(ErrorCode::kInvalidInput,
                  "OTEL_EXPORTER_OTLP_HEADERS must have the form NAME=VALUE,NAME=VALUE");
    }
    headers.add(name, *value);
  }
  return headers;
}

SendTraces sender_to(const CollectorOptions& options, const std::string& version) {
  registry::Request request{.method = "POST", .url = traces_url(options.url)};
  request.headers = options.headers;
  request.headers.set("Content-Type", "application/json");
  request.max_body_bytes = kMaxReplyBytes;
  const auto transport = std::make_shared<registry::Transport>(
      registry::TransportOptions{.user_agent = "billow/" + version,
                                 .connect_timeout = kTimeout,
                                 .stall_timeout = kTimeout,
                                 .ca_file = options.ca_file});
  return [request, transport](const std::string& body, std::stop_token stop) {
    registry::Request one = request;
    one.body = body;
    const registry::Reply reply = transport->send(one, std::move(stop));
    CollectorReply made{.status = reply.status, .body = reply.body};
    if (const auto after = number_of<uint32_t>(reply.headers.get("Retry-After")))
      made.retry_after = seconds(*after);
    return made;
  };
}

TraceExporter::TraceExporter(metrics::OtlpResource resource, std::string name, SendTraces send,
                             const ExportLimits& limits)
    : resource_(std::move(resource)),
      name_(std::move(name)),
      send_(std::move(send)),
      limits_(limits),
      thread_([this] { run(); }) {}

TraceExporter::~TraceExporter() {
  {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, limits_.flush_time, [this] { return has_ended_; });
  }
  cut_.request_stop();
  thread_.join();
  uint64_t n_left = n_lost_unlogged_;  // log_every can have hidden them
  for (const Waiting& waiting : waiting_) n_left += waiting.trace->n_collector_spans();
  if (n_left > 0)
    log::warn(fmt::format("{}: {} spans were not sent before the end", name_, n_left));
}

void TraceExporter::take(std::shared_ptr<const metrics::Trace> trace) {
  const size_t n_lost = trace->n_collector_spans();  // if the queue is full
  const auto parent = trace->parent();
  if (parent && !parent->sampled) return;
  const size_t n_spans = trace->n_spans() + 1;
  bool is_full = false;
  {
    const std::lock_guard lock(mutex_);
    is_full = waiting_.size() >= limits_.max_traces ||
              (n_waiting_spans_ + n_spans > limits_.max_spans && !waiting_.empty());
    if (!is_full) {
      waiting_.push_back({std::move(trace), n_spans});
      n_waiting_spans_ += n_spans;
    }
  }
  if (is_full) return lose(&metrics::SpanCounts::n_lost_full, n_lost, "the queue is full");
  changed_.notify_all();
}

metrics::SpanCounts TraceExporter::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void TraceExporter::run() {
  for (Batch batch = next(); !batch.empty(); batch = next()) deliver(batch);
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

// Waits for traces, then a short time for more. Returns the oldest traces; none at shutdown.
TraceExporter::Batch TraceExporter::next() {
  std::vector<Waiting> taken;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    changed_.wait_for(lock, limits_.delay,
                      [this] { return is_ending_ || n_waiting_spans_ >= limits_.batch_spans; });
    if (cut_.stop_requested()) return {};
    for (size_t n_spans = 0; !waiting_.empty() && n_spans < limits_.batch_spans;) {
      n_spans += waiting_.front().n_spans;
      n_waiting_spans_ -= waiting_.front().n_spans;
      taken.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  Batch batch;
  for (const Waiting& waiting : taken) batch.push_back(metrics::with_ids(waiting.trace->record()));
  return batch;
}

// Sends a batch, with retries, until the collector accepts or refuses it, or the time is over.
void TraceExporter::deliver(const Batch& batch) {
  uint64_t n_spans = 0;
  for (const metrics::OtlpTrace& trace : batch) n_spans += trace.n_spans();
  const std::string body = metrics::otlp_json(resource_, batch);
  const Clock::time_point until = Clock::now() + limits_.give_up;
  milliseconds doubling = limits_.min_pause;
  for (bool is_last = false;;) {
    std::string why;
    const std::optional<CollectorReply> reply = attempt(body, why);
    if (reply && !may_retry(reply->status)) return take_reply(*reply, n_spans);
    const Clock::time_point now = Clock::now();
    if (is_last || now >= until) return lose(&metrics::SpanCounts::n_lost_unsent, n_spans, why);
    warn(why, true);
    const auto left = std::chrono::ceil<milliseconds>(until - now);
    // The collector can ask for a longer pause, but not for a shorter one.
    const milliseconds asked = reply ? reply->retry_after.value_or(seconds(0)) : milliseconds(0);
    // If the program ends, only one more attempt is made.
    is_last = !pause(std::min(left, std::max(asked, spread(doubling))));
    doubling = std::min(2 * doubling, limits_.max_pause);
  }
}

std::optional<CollectorReply> TraceExporter::attempt(const std::string& body, std::string& why) {
  try {
    CollectorReply reply = send_(body, cut_.get_token());
    why = fmt::format("status {}", reply.status);
    return reply;
  } catch (const std::exception& error) {
    why = one_line(error.what(), kMaxWhyBytes);
    return std::nullopt;
  }
}

// Waits for `time`. Returns false if the program ends.
bool TraceExporter::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return is_ending_; });
}

// Handles a reply after which the batch is not sent again.
void TraceExporter::take_reply(const CollectorReply& reply, uint64_t n_spans) {
  if (reply.status < 200 || reply.status >= 300)
    return lose(&metrics::SpanCounts::n_lost_refused, n_spans,
                fmt::format("status {}", reply.status));
  const uint64_t n_rejected = std::min(rejected_spans(reply.body), n_spans);
  bool was_failing = false;
  {
    const std::lock_guard lock(mutex_);
    counts_.n_sent += n_spans - n_rejected;
    was_failing = std::exchange(is_failing_, false);
  }
  if (was_failing) log::info(fmt::format("{} takes traces again", name_));
  if (n_rejected > 0)
    lose(&metrics::SpanCounts::n_lost_refused, n_rejected, "it rejected some spans");
}

void TraceExporter::lose(Count count, uint64_t n, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    counts_.*count += n;
    n_lost_unlogged_ += n;
  }
  warn(why, false);
}

// Logs a failure, but at most one per `log_every`. `is_failing`: an attempt has failed.
void TraceExporter::warn(const std::string& why, bool is_failing) {
  uint64_t n_lost = 0;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (logged_at_ && now - *logged_at_ < limits_.log_every) return;
    logged_at_ = now;
    is_failing_ = is_failing_ || is_failing;
    n_lost = std::exchange(n_lost_unlogged_, 0);
  }
  log::warn(n_lost == 0 ? fmt::format("{} takes no traces: {}; trying again", name_, why)
                        : fmt::format("{}: {} spans of traces were lost: {}", name_, n_lost, why));
}

}  // namespace billow::server

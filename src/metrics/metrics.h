// The program's metrics in Prometheus' text format. Metric names are an interface and never change.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/figure.h"

namespace billow::metrics {

// The content type of the metrics text.
inline constexpr std::string_view kTextType = "text/plain; version=0.0.4; charset=utf-8";

// Max number of values of a label. Further values become "other".
inline constexpr size_t kMaxLabelValues = 256;

// Spans of traces for a collector of OpenTelemetry, since the start.
struct SpanCounts {
  uint64_t n_sent = 0;
  uint64_t n_lost_full = 0;     // the queue was full
  uint64_t n_lost_refused = 0;  // the collector refused them
  uint64_t n_lost_unsent = 0;   // the collector did not take them in time
};

// A snapshot of the server's load, taken for each scrape.
struct Load {
  size_t n_waiting = 0;  // requests in all queues, not yet in a batch
  size_t n_running = 0;
  double backlog_seconds = 0.0;
  double busy_ratio = 0.0;  // over the last 10 s
  double kv_used_ratio = 0.0;
  double kv_cached_ratio = 0.0;
  size_t n_kv_blocks = 0;  // max blocks in the KV budget
  size_t embed_pending_tokens = 0;
  bool ready = false;
  bool draining = false;
  size_t n_event_readers = 0;         // clients of the event stream
  uint64_t n_events_sent = 0;         // since the start
  uint64_t n_events_missed = 0;       // lost by readers that were too slow
  std::optional<SpanCounts> spans{};  // if traces are sent to a collector
  size_t n_max_models = 0;            // max loaded models; 0: only memory limits the number
  struct ModelLoad {
    std::string name;
    std::vector<std::string> aliases{};  // other names that clients may use
    bool is_loaded = false;              // false: loading or waiting to load
    size_t n_running = 0;
    size_t n_waiting = 0;
    uint64_t held_bytes = 0;
    std::vector<Figure> figures{};  // metrics of the model's runner
  };
  std::vector<ModelLoad> models{};

  // The API keys, if the server has some. The names come from the operator's file, so their number
  // is bounded. A refused request without a known key has the name "".
  struct KeyLoad {
    std::string name;
    size_t n_running = 0;
    uint64_t n_requests = 0;
    uint64_t n_evaluated = 0;                                        // tokens
    uint64_t n_generated = 0;                                        // tokens
    std::vector<std::pair<std::string_view, uint64_t>> n_refused{};  // by reason
  };
  std::vector<KeyLoad> keys{};
  uint64_t n_key_file_failures = 0;
};

// Adds the load of a runner. Runners with the same display name become one entry, because a series
// must not occur twice. Such runners have other weights or adapters: a new pull of a loaded model
// makes one, for example.
void add_model(Load& load, Load::ModelLoad model);

// `model` is the display name of an existing model. It is empty if a request names no model or an
// unknown one, so that clients cannot create series. `route` is the pattern of a route, never a
// path. It is empty if no route matched.
class Metrics {
 public:
  // `isa` is the kernel table that the runners use, if it is known.
  Metrics(const std::string& version, const std::string& isa);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  using Duration = std::chrono::nanoseconds;
  void request(std::string_view model, std::string_view route, int status, Duration duration);
  void first_token(std::string_view model, std::string_view route, Duration duration);
  void queued(std::string_view model, std::string_view route, Duration duration);
  // Records how long the texts or the conversation of a request took to become tokens.
  void tokenized(std::string_view model, Duration duration);
  struct Tokens {
    size_t n_prompt = 0;
    size_t n_cached = 0;  // prompt tokens that were cached
    size_t n_generated = 0;
    size_t n_drafted = 0;         // evaluated as guesses before they were chosen
    size_t n_draft_accepted = 0;  // guessed tokens that became part of the response
  };
  void tokens(std::string_view model, const Tokens& tokens);
  // Returns the total tokens of all models.
  Tokens totals() const;
  void model_load(std::string_view model, std::string_view reason);

  // Returns all metrics. Load values per model have the label `model`. The part of a total that
  // belongs to no model has model="". The sum of a series is therefore the total.
  std::string text(const Load& load, bool vllm_names) const;
  // Returns at most 20 series: totals without model labels, for load balancers that scrape many
  // times a second. Each series has its TYPE, because readers take a gauge without TYPE as 0. With
  // `vllm_names`, adds the same values under vLLM's names.
  std::string load_text(const Load& load, bool vllm_names) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace billow::metrics

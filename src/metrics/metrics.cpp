#include "metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "base/utf8.h"
#include "metrics/process.h"

namespace billow::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using Families = std::vector<MetricFamily>;

constexpr size_t kBlockTokens = 64;

prometheus::Histogram::BucketBoundaries first_token_bounds() {
  return {0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.2, 0.4, 0.6, 1, 2, 4, 6, 10, 20, 30, 60};
}
prometheus::Histogram::BucketBoundaries request_bounds() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600};
}

prometheus::Histogram::BucketBoundaries tokenize_bounds() {
  return {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5};
}

double seconds(Metrics::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Limits a label to kMaxLabelValues values, so that the number of series stays bounded.
class BoundedValues {
 public:
  std::string bounded(std::string_view value) {
    const std::lock_guard lock(mutex_);
    auto known = values_.find(value);
    if (known == values_.end()) {
      if (values_.size() == kMaxLabelValues) return "other";
      known = values_.insert(utf8::sanitized(value)).first;
    }
    return *known;
  }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> values_;
};

MetricFamily family(MetricType type, const char* name, const char* help) {
  return {name, help, type, {}};
}

void add_value(MetricFamily& family, double value, Labels labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

void add(Families& families, MetricType type, const char* name, const char* help, double value,
         Labels labels = {}) {
  add_value(families.emplace_back(family(type, name, help)), value, std::move(labels));
}

void add_gauge(Families& families, const char* name, const char* help, double value,
               Labels labels = {}) {
  add(families, MetricType::Gauge, name, help, value, std::move(labels));
}

double number(size_t n) { return static_cast<double>(n); }

// A metric that is a total of the load.
struct Total {
  const char* name;
  const char* help;
  double (*value)(const Load& load);
};
constexpr Total kQueues[] = {
    {"billow_requests_waiting", "Requests not yet in a batch.",
     [](const Load& load) { return number(load.n_waiting); }},
    {"billow_requests_running", "Requests in a batch.",
     [](const Load& load) { return number(load.n_running); }},
};
constexpr Total kTotals[] = {
    {"billow_backlog_seconds", "Estimated time for the pending tokens.",
     [](const Load& load) { return load.backlog_seconds; }},
    {"billow_busy_ratio", "Share of the last 10 s in which a pass was computing.",
     [](const Load& load) { return load.busy_ratio; }},
    {"billow_embed_pending_tokens", "Tokens of embeddings that are waiting for a pass.",
     [](const Load& load) { return number(load.embed_pending_tokens); }},
    {"billow_kv_used_ratio", "Share of the KV budget in use.",
     [](const Load& load) { return load.kv_used_ratio; }},
    {"billow_kv_cached_ratio", "Share of the KV budget with cached prefixes.",
     [](const Load& load) { return load.kv_cached_ratio; }},
    {"billow_ready", "Whether the server accepts requests.",
     [](const Load& load) { return load.ready ? 1.0 : 0.0; }},
    {"billow_draining", "Whether the server is draining before shutdown.",
     [](const Load& load) { return load.draining ? 1.0 : 0.0; }},
};

// Adds a gauge per model. The part of the total that belongs to no model gets model="".
void add_by_model(Families& families, const Total& row, const Load& load,
                  size_t Load::ModelLoad::* count) {
  MetricFamily& by_model = families.emplace_back(family(MetricType::Gauge, row.name, row.help));
  double rest = row.value(load);
  for (const Load::ModelLoad& model : load.models) {
    add_value(by_model, number(model.*count), {{"model", utf8::sanitized(model.name)}});
    rest -= number(model.*count);
  }
  add_value(by_model, std::max(rest, 0.0), {{"model", ""}});
}

void add_models(Families& families, const Load& load) {
  MetricFamily loaded =
      family(MetricType::Gauge, "billow_model_loaded", "1: loaded; 0: loading or waiting to load.");
  MetricFamily held = family(MetricType::Gauge, "billow_model_held_bytes",
                             "Memory that the ledger holds for the model.");
  for (const Load::ModelLoad& model : load.models) {
    const Labels labels = {{"model", utf8::sanitized(model.name)}};
    add_value(loaded, model.is_loaded ? 1.0 : 0.0, labels);
    add_value(held, static_cast<double>(model.held_bytes), labels);
  }
  if (load.models.empty()) return;
  families.push_back(std::move(loaded));
  families.push_back(std::move(held));
}

void add_spans(Families& families, const SpanCounts& counts) {
  add(families, MetricType::Counter, "billow_spans_sent_total",
      "Spans of traces that the collector took.", static_cast<double>(counts.n_sent));
  MetricFamily lost = family(MetricType::Counter, "billow_spans_lost_total",
                             "Spans of traces that the collector did not take.");
  for (const auto& [reason, n] :
       {std::pair("full", counts.n_lost_full), std::pair("refused", counts.n_lost_refused),
        std::pair("unsent", counts.n_lost_unsent)})
    add_value(lost, static_cast<double>(n), {{"reason", reason}});
  families.push_back(std::move(lost));
}

MetricType type_of(Figure::Kind kind) {
  switch (kind) {
    case Figure::Kind::kCounter:
      return MetricType::Counter;
    case Figure::Kind::kHistogram:
      return MetricType::Histogram;
    case Figure::Kind::kGauge:
      break;
  }
  return MetricType::Gauge;
}

ClientMetric::Histogram histogram_of(const Histogram& histogram) {
  ClientMetric::Histogram made;
  made.sample_sum = histogram.sum();
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    made.sample_count += histogram.counts()[i];
    const bool is_last = i == histogram.bounds().size();
    made.bucket.push_back({made.sample_count, is_last ? std::numeric_limits<double>::infinity()
                                                      : histogram.bounds()[i]});
  }
  return made;
}

// Adds the metrics of runners per model: one family per name. The first figure defines its type.
void add_figures(Families& families, const Load& load) {
  std::map<std::string, MetricFamily> made;
  for (const Load::ModelLoad& model : load.models) {
    for (const Figure& figure : model.figures) {
      const MetricType type = type_of(figure.kind);
      MetricFamily& by_model =
          made.try_emplace(figure.name, family(type, figure.name.c_str(), figure.help.c_str()))
              .first->second;
      if (by_model.type != type) continue;
      Labels labels = {{"model", utf8::sanitized(model.name)}};
      if (!figure.label.empty())
        labels.push_back({figure.label, utf8::sanitized(figure.label_value)});
      add_value(by_model, figure.value, std::move(labels));
      if (type == MetricType::Histogram)
        by_model.metric.back().histogram = histogram_of(figure.histogram);
    }
  }
  for (auto& [name, by_model] : made) families.push_back(std::move(by_model));
}

// Adds the metrics of API keys, if the server has keys.
void add_keys(Families& families, const Load& load) {
  if (load.keys.empty()) return;
  MetricFamily running = family(MetricType::Gauge, "billow_key_requests_running",
                                "Requests of the API key that have begun and not ended.");
  MetricFamily requests = family(MetricType::Counter, "billow_key_requests_total",
                                 "Requests of the API key that have begun.");
  MetricFamily tokens = family(MetricType::Counter, "billow_key_tokens_total",
                               "Tokens of the API key: evaluated (not cached) and generated.");
  MetricFamily refused = family(MetricType::Counter, "billow_key_refused_total",
                                "Requests that were refused for their API key, or without one.");
  for (const Load::KeyLoad& key : load.keys) {
    for (const auto& [reason, n] : key.n_refused)
      add_value(refused, static_cast<double>(n),
                {{"key", key.name}, {"reason", std::string(reason)}});
    if (key.name.empty()) continue;
    add_value(running, number(key.n_running), {{"key", key.name}});
    add_value(requests, static_cast<double>(key.n_requests), {{"key", key.name}});
    add_value(tokens, static_cast<double>(key.n_evaluated),
              {{"key", key.name}, {"kind", "evaluated"}});
    add_value(tokens, static_cast<double>(key.n_generated),
              {{"key", key.name}, {"kind", "generated"}});
  }
  for (MetricFamily* made : {&running, &requests, &tokens, &refused})
    if (!made->metric.empty()) families.push_back(std::move(*made));
  add(families, MetricType::Counter, "billow_key_file_failures_total",
      "Changed files of API keys that could not be used.",
      static_cast<double>(load.n_key_file_failures));
}

void add_process(Families& families) {
  const ProcessFigures figures = process_figures();
  add(families, MetricType::Counter, "process_cpu_seconds_total", "CPU time of this process.",
      figures.cpu_seconds);
  if (figures.resident_bytes) {
    add_gauge(families, "process_resident_memory_bytes", "Resident memory of this process.",
              static_cast<double>(*figures.resident_bytes));
  }
  if (figures.n_open_files) {
    add_gauge(families, "process_open_fds", "Open files of this process.",
              number(*figures.n_open_files));
  }
  if (figures.start_seconds) {
    add_gauge(families, "process_start_time_seconds",
              "Start time of this process, in seconds since 1970.", *figures.start_seconds);
  }
}

// Returns all names of the models that are loaded, or of the models that are not, joined by commas.
std::string names_of(const Load& load, bool is_loaded) {
  std::string names;
  const auto add_name = [&](const std::string& name) {
    names += (names.empty() ? "" : ",") + utf8::sanitized(name);
  };
  for (const Load::ModelLoad& model : load.models) {
    if (model.is_loaded != is_loaded) continue;
    add_name(model.name);
    std::ranges::for_each(model.aliases, add_name);
  }
  return names;
}

size_t n_names(const Load& load) {
  size_t n = 0;
  for (const Load::ModelLoad& model : load.models) n += 1 + model.aliases.size();
  return n;
}

// Adds vLLM's metrics of requests, KV memory and adapters. Models are reported as adapters.
void add_vllm_names(Families& families, const Load& load) {
  add_gauge(families, "vllm:num_requests_waiting", "", number(load.n_waiting));
  add_gauge(families, "vllm:num_requests_running", "", number(load.n_running));
  add_gauge(families, "vllm:kv_cache_usage_perc", "", load.kv_used_ratio);
  add_gauge(families, "vllm:cache_config_info", "", 1.0,
            {{"block_size", std::to_string(kBlockTokens)},
             {"num_gpu_blocks", std::to_string(load.n_kv_blocks)}});
  // Routers compute free places as max_lora minus the listed names. Aliases must not take a place.
  const size_t n_max = load.n_max_models > 0 ? load.n_max_models : load.models.size() + 1;
  const size_t max_lora = n_max + n_names(load) - load.models.size();
  // The value is the current time: if a router sees several series, the latest one counts.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  add_gauge(families, "vllm:lora_requests_info", "", std::chrono::duration<double>(now).count(),
            {{"max_lora", std::to_string(max_lora)},
             {"running_lora_adapters", names_of(load, true)},
             {"waiting_lora_adapters", names_of(load, false)}});
}

Histogram sum_of(const Histogram& a, const Histogram& b) {
  if (a.bounds() != b.bounds()) return a;
  std::vector<uint64_t> counts = a.counts();
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += b.counts()[i];
  return {a.bounds(), std::move(counts), a.sum() + b.sum()};
}

// Adds a figure to one of the same series. Shares have no sum: the largest one counts.
void add_to(Figure& sum, const Figure& figure) {
  const bool is_share = sum.name.ends_with("_percent") || sum.name.ends_with("_ratio");
  sum.value = is_share ? std::max(sum.value, figure.value) : sum.value + figure.value;
  sum.histogram = sum_of(sum.histogram, figure.histogram);
}

std::string text_of(const Families& families) {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return std::move(out).str();
}

}  // namespace

void add_model(Load& load, Load::ModelLoad model) {
  const auto same = std::ranges::find(load.models, model.name, &Load::ModelLoad::name);
  if (same == load.models.end()) return load.models.push_back(std::move(model));
  same->is_loaded = same->is_loaded || model.is_loaded;
  same->n_running += model.n_running;
  same->n_waiting += model.n_waiting;
  same->held_bytes += model.held_bytes;
  for (Figure& figure : model.figures) {
    const auto sum = std::ranges::find_if(same->figures, [&](const Figure& other) {
      return other.name == figure.name && other.label_value == figure.label_value;
    });
    if (sum == same->figures.end())
      same->figures.push_back(std::move(figure));
    else
      add_to(*sum, figure);
  }
}

struct Metrics::State {
  using Counters = prometheus::Family<prometheus::Counter>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  State(const std::string& version, const std::string& isa)
      : build{{"version", utf8::sanitized(version)}, {"isa", utf8::sanitized(isa)}} {}

  Counters& counters(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Histograms& histograms(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }
  prometheus::Labels labels(std::string_view model, std::string_view route) {
    return {{"model", models.bounded(model)}, {"route", routes.bounded(route)}};
  }

  prometheus::Registry registry;
  Counters& requests = counters("billow_requests_total", "Requests with a response.");
  Histograms& request_seconds =
      histograms("billow_request_seconds", "From a request's arrival to the end of its response.");
  Histograms& first_token_seconds = histograms("billow_time_to_first_token_seconds",
                                               "From a request's arrival to its first token.");
  Histograms& queue_seconds =
      histograms("billow_queue_seconds", "From a request's arrival to its first batch.");
  Histograms& tokenize_seconds = histograms(
      "billow_tokenize_seconds", "Time to convert a request's texts or messages to tokens.");
  Counters& prompt_tokens =
      counters("billow_prompt_tokens_total", "Prompt tokens, cached tokens included.");
  Counters& cached_tokens =
      counters("billow_prompt_cached_tokens_total", "Prompt tokens that were cached.");
  Counters& generated_tokens = counters("billow_generated_tokens_total", "Generated tokens.");
  Counters& drafted_tokens = counters("billow_drafted_tokens_total",
                                      "Tokens that were guessed and evaluated before sampling.");
  Counters& draft_accepted_tokens = counters("billow_draft_accepted_tokens_total",
                                             "Guessed tokens that became part of the response.");
  Counters& loads = counters("billow_model_loads_total", "Model loads.");
  BoundedValues models;
  BoundedValues routes;
  BoundedValues reasons;
  std::atomic<uint64_t> n_prompt = 0;  // of all models
  std::atomic<uint64_t> n_cached = 0;
  std::atomic<uint64_t> n_generated = 0;
  const Labels build;
};

Metrics::Metrics(const std::string& version, const std::string& isa)
    : state_(std::make_unique<State>(version, isa)) {}

Metrics::~Metrics() = default;

void Metrics::request(std::string_view model, std::string_view route, int status,
                      Duration duration) {
  prometheus::Labels labels = state_->labels(model, route);
  state_->request_seconds.Add(labels, request_bounds()).Observe(seconds(duration));
  labels["code"] = status >= 100 && status < 600 ? std::to_string(status) : "other";
  state_->requests.Add(labels).Increment();
}

void Metrics::first_token(std::string_view model, std::string_view route, Duration duration) {
  state_->first_token_seconds.Add(state_->labels(model, route), first_token_bounds())
      .Observe(seconds(duration));
}

void Metrics::queued(std::string_view model, std::string_view route, Duration duration) {
  state_->queue_seconds.Add(state_->labels(model, route), request_bounds())
      .Observe(seconds(duration));
}

void Metrics::tokenized(std::string_view model, Duration duration) {
  state_->tokenize_seconds.Add({{"model", state_->models.bounded(model)}}, tokenize_bounds())
      .Observe(seconds(duration));
}

void Metrics::tokens(std::string_view model, const Tokens& tokens) {
  const prometheus::Labels labels = {{"model", state_->models.bounded(model)}};
  state_->prompt_tokens.Add(labels).Increment(number(tokens.n_prompt));
  state_->cached_tokens.Add(labels).Increment(number(tokens.n_cached));
  state_->generated_tokens.Add(labels).Increment(number(tokens.n_generated));
  state_->drafted_tokens.Add(labels).Increment(number(tokens.n_drafted));
  state_->draft_accepted_tokens.Add(labels).Increment(number(tokens.n_draft_accepted));
  state_->n_prompt += tokens.n_prompt;
  state_->n_cached += tokens.n_cached;
  state_->n_generated += tokens.n_generated;
}

Metrics::Tokens Metrics::totals() const {
  return {.n_prompt = state_->n_prompt,
          .n_cached = state_->n_cached,
          .n_generated = state_->n_generated};
}

void Metrics::model_load(std::string_view model, std::string_view reason) {
  state_->loads
      .Add({{"model", state_->models.bounded(model)}, {"reason", state_->reasons.bounded(reason)}})
      .Increment();
}

std::string Metrics::text(const Load& load, bool vllm_names) const {
  Families families;
  add_gauge(families, "billow_build_info", "Version and kernel table of the program.", 1.0,
            state_->build);
  add_by_model(families, kQueues[0], load, &Load::ModelLoad::n_waiting);
  add_by_model(families, kQueues[1], load, &Load::ModelLoad::n_running);
  for (const Total& row : kTotals) add_gauge(families, row.name, row.help, row.value(load));
  add_gauge(families, "billow_event_readers", "Clients that read the stream of events.",
            number(load.n_event_readers));
  add(families, MetricType::Counter, "billow_events_sent_total",
      "Events that clients of the stream got.", static_cast<double>(load.n_events_sent));
  add(families, MetricType::Counter, "billow_events_missed_total",
      "Events that clients of the stream lost, because they read too slowly.",
      static_cast<double>(load.n_events_missed));
  if (load.spans) add_spans(families, *load.spans);
  add_models(families, load);
  add_figures(families, load);
  add_keys(families, load);
  std::ranges::move(state_->registry.Collect(), std::back_inserter(families));
  if (vllm_names) add_vllm_names(families, load);
  add_process(families);
  return text_of(families);
}

std::string Metrics::load_text(const Load& load, bool vllm_names) const {
  Families families;
  for (const Total& row : kQueues) add_gauge(families, row.name, "", row.value(load));
  for (const Total& row : kTotals) add_gauge(families, row.name, "", row.value(load));
  add(families, MetricType::Counter, "billow_prompt_tokens_total", "",
      static_cast<double>(state_->n_prompt));
  add(families, MetricType::Counter, "billow_prompt_cached_tokens_total", "",
      static_cast<double>(state_->n_cached));
  if (vllm_names) add_vllm_names(families, load);
  return text_of(families);
}

}  // namespace billow::metrics

#include "engine/embed/counts.h"

#include <algorithm>
#include <utility>

namespace billow::engine {
namespace {

using Kind = Figure::Kind;

std::vector<double> token_bounds() {
  std::vector<double> bounds;
  for (int i = 0; i <= 13; ++i) bounds.push_back(static_cast<double>(1 << i));
  return bounds;
}
std::vector<double> percent_bounds() { return {1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}; }
std::vector<double> second_bounds() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
}

struct Values {
  const EmbedCounts& counts;
  const EmbedLoad& load;
  const EmbedSizes& sizes;
};

struct NumberRow {
  const char* name;
  const char* help;
  Kind kind;
  double (*value)(const Values& values);
};
template <auto kField>
double count(const Values& values) {
  return static_cast<double>(values.counts.*kField);
}
template <auto kField>
double gauge(const Values& values) {
  return static_cast<double>(values.load.*kField);
}
double context_percent(const Values& values) {
  const double share = 100.0 * static_cast<double>(values.load.n_active_tokens) /
                       static_cast<double>(values.sizes.context_size);
  return std::min(share, 100.0);
}
constexpr NumberRow kNumbers[] = {
    {"billow_embed_batches_created_total", "Embedding passes started.", Kind::kCounter,
     count<&EmbedCounts::n_passes>},
    {"billow_embed_queue_pending_tokens", "Tokens of queued texts.", Kind::kGauge,
     gauge<&EmbedLoad::n_pending_tokens>},
    {"billow_embed_batches_active", "Embedding passes in flight.", Kind::kGauge,
     gauge<&EmbedLoad::n_running>},
    {"billow_embed_context_utilization_percent", "Tokens in flight, in percent of their maximum.",
     Kind::kGauge, context_percent},
    {"billow_embed_oom_retries_total", "Passes retried with fewer tokens after a lack of memory.",
     Kind::kCounter, count<&EmbedCounts::n_retries>},
    {"billow_embed_batches_max", "Max embedding passes in flight.", Kind::kGauge,
     gauge<&EmbedLoad::n_max_passes>},
    {"billow_embed_inputs_total", "Texts accepted.", Kind::kCounter,
     count<&EmbedCounts::n_accepted>},
    {"billow_embed_vectors_total", "Texts with a vector.", Kind::kCounter,
     count<&EmbedCounts::n_vectors>},
    {"billow_embed_dropped_total", "Texts whose client disconnected before a pass.", Kind::kCounter,
     count<&EmbedCounts::n_dropped>},
    {"billow_embed_nan_outputs_total", "Texts whose vector had values that are not finite.",
     Kind::kCounter, count<&EmbedCounts::n_nan_outputs>},
};

struct HistogramRow {
  const char* name;
  const char* help;
  Histogram EmbedCounts::* histogram;
};
constexpr HistogramRow kHistograms[] = {
    {"billow_embed_batch_tokens", "Tokens of an embedding pass.", &EmbedCounts::pass_tokens},
    {"billow_embed_batch_utilization_percent",
     "Tokens of an embedding pass, in percent of n_batch.", &EmbedCounts::utilization_percent},
    {"billow_embed_queue_wait_seconds", "Queue time of the oldest text of a pass.",
     &EmbedCounts::queue_wait_seconds},
    {"billow_embed_oom_retry_tokens", "Max tokens of a retry after a lack of memory.",
     &EmbedCounts::retry_tokens},
    {"billow_embed_input_tokens", "Tokens of a text.", &EmbedCounts::text_tokens},
    {"billow_embed_inference_seconds", "Duration of an embedding pass.",
     &EmbedCounts::pass_seconds},
};

struct LabelledRow {
  const char* name;
  const char* help;
  const char* label;
  const char* label_value;
  uint64_t EmbedCounts::* count;
};
constexpr const char* kRejected = "Texts rejected before they were queued.";
constexpr const char* kFailed = "Texts without a vector, by cause.";
constexpr LabelledRow kLabelled[] = {
    {"billow_embed_rejected_total", kRejected, "reason", "full", &EmbedCounts::n_rejected_full},
    {"billow_embed_rejected_total", kRejected, "reason", "closing",
     &EmbedCounts::n_rejected_closing},
    {"billow_embed_rejected_total", kRejected, "reason", "text", &EmbedCounts::n_rejected_text},
    {"billow_embed_failures_total", kFailed, "type", "memory", &EmbedCounts::n_failed_memory},
    {"billow_embed_failures_total", kFailed, "type", "model", &EmbedCounts::n_failed_model},
};

}  // namespace

EmbedCounts::EmbedCounts()
    : pass_tokens(token_bounds()),
      utilization_percent(percent_bounds()),
      queue_wait_seconds(second_bounds()),
      retry_tokens(token_bounds()),
      text_tokens(token_bounds()),
      pass_seconds(second_bounds()) {}

std::vector<Figure> embed_figures(const EmbedCounts& counts, const EmbedLoad& load,
                                  const EmbedSizes& sizes) {
  const Values values = {counts, load, sizes};
  std::vector<Figure> figures;
  for (const NumberRow& row : kNumbers)
    figures.push_back(
        {.name = row.name, .help = row.help, .kind = row.kind, .value = row.value(values)});
  for (const HistogramRow& row : kHistograms)
    figures.push_back({.name = row.name,
                       .help = row.help,
                       .kind = Kind::kHistogram,
                       .histogram = counts.*row.histogram});
  for (const LabelledRow& row : kLabelled)
    figures.push_back({.name = row.name,
                       .help = row.help,
                       .kind = Kind::kCounter,
                       .value = static_cast<double>(counts.*row.count),
                       .label = row.label,
                       .label_value = row.label_value});
  return figures;
}

}  // namespace billow::engine

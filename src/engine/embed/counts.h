// Counters and measurements of the embedding batcher, and the metrics that show them. The metric
// names are a stable interface. Plain data; the batcher locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/figure.h"
#include "engine/embed/plan.h"

namespace billow::engine {

// Since the start.
struct EmbedCounts {
  EmbedCounts();

  uint64_t n_passes = 0;    // started passes, including retries
  uint64_t n_retries = 0;   // retries of passes after a lack of memory, one for each smaller size
  uint64_t n_accepted = 0;  // texts
  uint64_t n_vectors = 0;   // texts with a vector
  uint64_t n_dropped = 0;   // texts of clients that disconnected before a pass
  uint64_t n_rejected_full = 0;     // texts of requests that came when the queue was full
  uint64_t n_rejected_closing = 0;  // texts of requests that came during shutdown
  uint64_t n_rejected_text = 0;     // texts that the model cannot evaluate: too long, empty, ...
  uint64_t n_failed_memory = 0;     // texts
  uint64_t n_failed_model = 0;      // texts of failed passes
  uint64_t n_nan_outputs = 0;       // texts whose vector had values that are not finite
  Histogram pass_tokens;
  Histogram utilization_percent;
  Histogram queue_wait_seconds;  // of the oldest text of a pass
  Histogram retry_tokens;
  Histogram text_tokens;
  Histogram pass_seconds;
};

// A snapshot.
struct EmbedLoad {
  size_t n_pending_texts = 0;
  size_t n_pending_tokens = 0;
  size_t n_active_tokens = 0;
  size_t n_running = 0;           // passes
  size_t n_requests_running = 0;  // requests with texts that were in a pass
  size_t n_requests_waiting = 0;
  size_t n_max_passes = 1;  // max parallel passes
};

std::vector<Figure> embed_figures(const EmbedCounts& counts, const EmbedLoad& load,
                                  const EmbedSizes& sizes);

}  // namespace billow::engine

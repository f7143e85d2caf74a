// What the embedding batcher counts and measures, and the names under which it is shown: an
// interface that never changes. Plain data; the batcher locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/figure.h"
#include "engine/embed/plan.h"

namespace billow::engine {

// From the beginning on.
struct EmbedCounts {
  EmbedCounts();

  uint64_t n_passes = 0;            // begun, those of retries included
  uint64_t n_retries = 0;           // of passes for want of memory, each step to a smaller size
  uint64_t n_accepted = 0;          // texts
  uint64_t n_vectors = 0;           // texts that have one
  uint64_t n_dropped = 0;           // texts of clients that had gone, before a pass took them
  uint64_t n_rejected_full = 0;     // texts of requests that came when too many waited
  uint64_t n_rejected_closing = 0;  // or when the batcher was ending
  uint64_t n_rejected_text = 0;     // texts that the model cannot evaluate: too long, empty, ...
  uint64_t n_failed_memory = 0;     // texts
  uint64_t n_failed_model = 0;      // texts of passes that failed
  uint64_t n_nan_outputs = 0;       // texts whose vector had values that are no numbers
  Histogram pass_tokens;
  Histogram utilization_percent;
  Histogram queue_wait_seconds;  // of the oldest text of a pass
  Histogram retry_tokens;
  Histogram text_tokens;
  Histogram pass_seconds;
};

// Of one moment.
struct EmbedLoad {
  size_t n_pending_texts = 0;
  size_t n_pending_tokens = 0;
  size_t n_active_tokens = 0;
  size_t n_running = 0;           // passes
  size_t n_requests_running = 0;  // of whose texts some were in a pass
  size_t n_requests_waiting = 0;
  size_t n_max_passes = 1;  // that can run at once
};

std::vector<Figure> embed_figures(const EmbedCounts& counts, const EmbedLoad& load,
                                  const EmbedSizes& sizes);

}  // namespace billow::engine

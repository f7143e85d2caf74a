// The embedder that uses the store and the runners of this machine. Thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "api/catalog.h"
#include "api/embedder.h"
#include "api/latest_contexts.h"
#include "api/request_options.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"

namespace billow::api {

struct EmbedPolicy {
  NumCtxPolicy num_ctx = NumCtxPolicy::kIgnore;
  size_t max_context = 0;  // of any input; 0: the model's max
};

class LocalEmbedder : public Embedder {
 public:
  // REQUIRES: all arguments except the policy outlive the embedder.
  LocalEmbedder(Catalog& catalog, scheduler::Scheduler& scheduler, metrics::Metrics& metrics,
                LatestContexts& latest_contexts, EmbedPolicy policy);

  EmbedReply embed(const EmbedRequest& request, std::stop_token stop,
                   metrics::Trace& trace) override;

 private:
  Catalog& catalog_;
  scheduler::Scheduler& scheduler_;
  metrics::Metrics& metrics_;
  LatestContexts& latest_contexts_;
  const EmbedPolicy policy_;
};

// Truncates the vector if `dimensions` is smaller than its size, and scales it to length 1 if
// `normalise`. A zero vector stays zero. Throws http::StatusError (500) for NaN or infinity.
void finish_vector(std::vector<float>& vector, size_t dimensions, bool normalise);

// Does the same for each vector of the result. Also throws if the vectors cannot have the same
// size.
void finish_vectors(EmbedResult& result, size_t dimensions, bool normalise);

}  // namespace billow::api

// The embedder over this machine's store and runners. Any thread; many at once.
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
  size_t max_context = 0;  // of any input; 0: the model's
};

class LocalEmbedder : public Embedder {
 public:
  // All but the policy outlive the embedder.
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

// Cut to `dimensions` where that is fewer, and of length 1 where `normalise`; zeros stay zeros.
// Throws http::StatusError (500) for values that are no numbers.
void finish_vector(std::vector<float>& vector, size_t dimensions, bool normalise);

// The same for each of the result's vectors. Throws also where they cannot be of one size.
void finish_vectors(EmbedResult& result, size_t dimensions, bool normalise);

}  // namespace billow::api

// The embedder over this machine's store and runners. Any thread; many at once.
#pragma once

#include "api/catalog.h"
#include "api/embedder.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"

namespace billow::api {

class LocalEmbedder : public Embedder {
 public:
  // All outlive the embedder.
  LocalEmbedder(Catalog& catalog, scheduler::Scheduler& scheduler, metrics::Metrics& metrics);

  EmbedReply embed(const EmbedRequest& request, std::stop_token stop,
                   metrics::Trace& trace) override;

 private:
  Catalog& catalog_;
  scheduler::Scheduler& scheduler_;
  metrics::Metrics& metrics_;
};

struct EmbedTokens {
  std::vector<int32_t> tokens;
  bool is_cut = false;
};

// The tokens of one input, at most `limit` with the special ones. Throws http::StatusError (400)
// where it is longer and may not be cut, and where nothing of it would be left.
EmbedTokens embed_tokens(const tokenizer::Tokenizer& tokenizer, const std::string& text,
                         size_t limit, bool truncate);

// Cut to `dimensions` where that is fewer, and of length 1 where `normalise`. Throws
// http::StatusError (500) for values that are no numbers.
void finish_vector(std::vector<float>& vector, size_t dimensions, bool normalise);

}  // namespace billow::api

// The generator over this machine's store and runners. Any thread; many at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <string>
#include <vector>

#include "api/catalog.h"
#include "api/generator.h"
#include "api/latest_contexts.h"
#include "api/prompt_builder.h"
#include "api/request_options.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"

namespace billow::api {

struct GenerationPolicy {
  NumCtxPolicy num_ctx = NumCtxPolicy::kIgnore;
  size_t max_context = 0;       // of any request; 0: the model's
  std::vector<size_t> sizes{};  // rungs; empty: 512, doubling
  std::string overflow_policy = "refill";
  size_t reserve_batches = 9;
  size_t overflow_batch = 64;
};

// An answer without a limit of its own ends after so many times the model's context.
inline constexpr size_t kMaxContexts = 10;
// As with Ollama, an answer ends where the text of a token comes again more than so often in a row.
inline constexpr size_t kMaxRepeats = 30;

class LocalGenerator : public Generator {
 public:
  // All outlive the generator.
  LocalGenerator(Catalog& catalog, scheduler::Scheduler& scheduler, metrics::Metrics& metrics,
                 LatestContexts& latest_contexts, GenerationPolicy policy);

  void run(const GenerationRequest& request, Sink& sink, std::stop_token stop,
           metrics::Trace& trace) override;

 private:
  struct Plan;
  void load_or_end(const ServedModel& model, const GenerationRequest& request, Sink& sink,
                   std::stop_token stop, metrics::Trace& trace);
  // Unloads a model that cannot be read: it may have been loaded while it could.
  void end_broken(const std::string& model, Sink& sink);
  Plan plan(const ServedModel& model, const GenerationRequest& request, const std::stop_token& stop,
            metrics::Trace& trace);
  // Images decoded and written as PNG files.
  std::vector<context::PromptImage> images_of(BuiltPrompt& prompt, const std::stop_token& stop);
  void answer(const ServedModel& model, const GenerationRequest& request, Plan plan, Sink& sink,
              std::stop_token stop, metrics::Trace& trace);

  Catalog& catalog_;
  scheduler::Scheduler& scheduler_;
  metrics::Metrics& metrics_;
  LatestContexts& latest_contexts_;
  const GenerationPolicy policy_;
  // A large picture takes hundreds of megabytes while it is decoded.
  std::counting_semaphore<> decoders_{2};
};

// A request's way through the scheduler, as spans of its trace.
scheduler::OnStage trace_stages(metrics::Trace& trace);

}  // namespace billow::api

// The generator that uses the store and the runners of this machine. Thread-safe.
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
#include "api/picture_addresses.h"
#include "api/prompt_builder.h"
#include "api/request_options.h"
#include "api/slots.h"
#include "base/json_fwd.h"
#include "metrics/metrics.h"
#include "scheduler/scheduler.h"

namespace billow::api {

struct GenerationPolicy {
  NumCtxPolicy num_ctx = NumCtxPolicy::kIgnore;
  size_t max_context = 0;       // of any request; 0: the model's max
  std::vector<size_t> sizes{};  // rungs; empty: 512, then doubling
  std::string overflow_policy = "refill";
  size_t reserve_batches = 9;
  size_t overflow_batch = 64;
};

// An answer without its own limit ends after this many times the model's context.
inline constexpr size_t kMaxContexts = 10;
// An answer ends if one token's text repeats more than this many times in a row, as in Ollama.
inline constexpr size_t kMaxRepeats = 30;

// Called on a request's thread for each transition and compaction of its context.
using OnContextEvent =
    std::function<void(const metrics::Trace& trace, const std::string& model, const Json& event)>;

class LocalGenerator : public Generator {
 public:
  // REQUIRES: all arguments except the policy outlive the generator.
  LocalGenerator(Catalog& catalog, scheduler::Scheduler& scheduler, metrics::Metrics& metrics,
                 LatestContexts& latest_contexts, Slots& slots, PictureAddresses& addresses,
                 GenerationPolicy policy, OnContextEvent on_context_event = {});

  void run(const GenerationRequest& request, Sink& sink, std::stop_token stop,
           metrics::Trace& trace) override;

 private:
  struct Plan;
  void load_or_end(const ServedModel& model, const GenerationRequest& request, Sink& sink,
                   std::stop_token stop, metrics::Trace& trace);
  // Unloads the runners of a model's name, also those of weights that the name had before. Returns
  // whether there were any.
  bool end_runners(const std::string& name);
  Plan plan(const ServedModel& model, const GenerationRequest& request, const std::stop_token& stop,
            metrics::Trace& trace);
  // Decodes images and encodes them as PNG files.
  std::vector<context::PromptImage> images_of(BuiltPrompt& prompt, const std::stop_token& stop);
  void answer(const ServedModel& model, const GenerationRequest& request, Plan plan, Sink& sink,
              std::stop_token stop, metrics::Trace& trace);

  Catalog& catalog_;
  scheduler::Scheduler& scheduler_;
  metrics::Metrics& metrics_;
  LatestContexts& latest_contexts_;
  Slots& slots_;
  PictureAddresses& addresses_;
  const GenerationPolicy policy_;
  const OnContextEvent on_context_event_;
  // Limits parallel decoding: a large picture needs hundreds of megabytes.
  std::counting_semaphore<> decoders_{2};
};

// Returns a callback that records a request's stages in the scheduler as spans of its trace.
scheduler::OnStage trace_stages(metrics::Trace& trace);

}  // namespace billow::api

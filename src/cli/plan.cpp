// billow plan: shows which context and how much memory a request would get, and when. Reads only
// the model's header, no weights.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "arch/encoder.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/forecast.h"
#include "cli/plan_report.h"
#include "gguf/file.h"

namespace billow::cli {
namespace {

void run(const PlanOptions& options) {
  const gguf::File file = gguf::File::open(options.model, gguf::StringArrays::kSkipped);
  if (arch::is_encoder(file)) {
    throw Error(
        ErrorCode::kUnsupported,
        options.model + ": this model makes vectors from texts; only answers grow and need a plan");
  }
  const engine::Description model = engine::describe(file, describe_options(options));
  const Forecast run = forecast(options, model);
  const RequestMemory memory = request_memory(options, model, run);
  const std::string out = options.json ? plan_json(options, model.model, run, memory).dump(2) + "\n"
                                       : plan_text(options, model.model, run, memory);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void declare_context(CLI::App& command, PlanOptions& options) {
  command.add_option("--num-ctx", options.num_ctx, "The request's num_ctx; 0: none");
  command
      .add_option("--num-ctx-policy", options.num_ctx_policy,
                  "ignore: num_ctx has no effect; cap: num_ctx limits the context")
      ->check(CLI::IsMember({"ignore", "cap"}))
      ->capture_default_str();
  command.add_option("--max-context-size", options.max_context,
                     "Max tokens of a context; 0: the model's maximum");
  command
      .add_option(
          "--context-sizes", options.sizes,
          "Sizes that the context grows through, separated by commas; default: 512, then doubling")
      ->delimiter(',');
  command
      .add_option("--overflow-policy", options.overflow_policy,
                  "When the context is full: refill, shift or stop")
      ->check(CLI::IsMember({"refill", "shift", "stop"}))
      ->capture_default_str();
  command
      .add_option("--overflow-reserve-batches", options.reserve_batches,
                  "Batches of recent tokens that a compaction keeps")
      ->capture_default_str();
  command
      .add_option("--overflow-batch", options.overflow_batch,
                  "Tokens per batch of --overflow-reserve-batches")
      ->capture_default_str();
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("plan", "Show how much context and memory a request would take, and when");
  auto options = std::make_shared<PlanOptions>();
  command->add_option("-m,--model", options->model, "GGUF file of the model")->required();
  command->add_option("-p,--prompt-tokens", options->n_prompt, "Tokens of the prompt")->required();
  command
      ->add_option("-n,--num-predict", options->num_predict,
                   "Max tokens to write; -1: no limit; -2: until the context is full")
      ->capture_default_str();
  command
      ->add_option("--parallel", options->n_parallel,
                   "Number of such requests that run at the same time")
      ->capture_default_str();
  declare_context(*command, *options);
  add_kv_type(*command, options->kv_type)->capture_default_str();
  command->add_option("-t,--threads", options->n_threads,
                      "Number of threads; 0: one for each usable physical core");
  command
      ->add_option("--memory", options->memory,
                   "Memory that can be used: 2G, 512M, or a share of the memory of this machine or "
                   "control group")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

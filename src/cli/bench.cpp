// billow bench: measures how fast a model reads prompts and writes answers. Runs one sequence at a
// given depth of the context, or several sequences together. For an encoder, measures how fast it
// reads texts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "arch/encoder.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/bench_rates.h"
#include "cli/bench_texts.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "engine/memory_json.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ModelOptions model;
  size_t n_prompt = 512;
  size_t n_generate = 128;
  size_t depth = 0;
  std::optional<size_t> parallel;
  size_t n_runs = 5;
  bool json = false;

  size_t n_parallel() const { return parallel.value_or(1); }
  // Depth at which each sequence writes. With several sequences, each writes after its prompt.
  size_t generation_depth() const {
    return std::max<size_t>(1, n_parallel() > 1 ? n_prompt : depth);
  }
};

std::vector<int32_t> random_tokens(const engine::Engine& engine, size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % static_cast<unsigned>(engine.tokenizer().n_tokens()));
  }
  return tokens;
}

double rate(size_t n_tokens, Clock::time_point since) {
  return static_cast<double>(n_tokens) /
         std::chrono::duration<double>(Clock::now() - since).count();
}

// Starts all sequences, each with a different prompt.
std::vector<std::shared_ptr<const engine::Sequence>> start_all(
    engine::Engine& engine, const BenchOptions& options, size_t n_tokens, unsigned seed,
    const engine::SequenceOptions& sequence_options) {
  std::vector<std::shared_ptr<const engine::Sequence>> sequences;
  for (size_t i = 0; i < options.n_parallel(); ++i) {
    const auto own_seed = static_cast<unsigned>(seed * options.n_parallel() + i);
    sequences.push_back(engine.start(random_tokens(engine, n_tokens, own_seed), sequence_options));
  }
  return sequences;
}

// Returns tokens per second over the last n_prompt tokens of each prompt.
double prompt_rate(engine::Engine& engine, const BenchOptions& options, unsigned seed) {
  const auto sequences =
      start_all(engine, options, options.depth + options.n_prompt, seed, {.max_new_tokens = 0});
  while (sequences[0]->n_evaluated() < options.depth)  // only one sequence has a depth
    engine.step(options.depth - sequences[0]->n_evaluated());
  const Clock::time_point start = Clock::now();
  while (!engine.idle()) engine.step();
  return rate(options.n_prompt * options.n_parallel(), start);
}

// Returns tokens per second of all sequences together over n_generate steps. In each step every
// sequence writes a token.
double generation_rate(engine::Engine& engine, const BenchOptions& options, unsigned seed) {
  engine::SequenceOptions sequence_options;
  sequence_options.sampling.temperature = 0.0f;
  sequence_options.ignore_eos = true;
  const auto sequences =
      start_all(engine, options, options.generation_depth(), seed, sequence_options);
  const auto waits = [](const auto& sequence) { return sequence->n_generated() == 0; };
  while (std::any_of(sequences.begin(), sequences.end(), waits)) engine.step();
  size_t n_tokens = 0;
  const Clock::time_point start = Clock::now();
  for (size_t i = 0; i < options.n_generate; ++i) n_tokens += engine.step().size();
  const double result = rate(n_tokens, start);
  for (const auto& sequence : sequences) engine.finish(*sequence, engine::FinishReason::kLength);
  return result;
}

void print_rates(const Rates& rates, const char* what, size_t n_parallel, size_t n, size_t depth) {
  const std::string times = n_parallel > 1 ? std::to_string(n_parallel) + " x " : "";
  std::printf("%-8s %9s tokens at depth %-6zu %10.1f tokens/s (%.1f to %.1f)\n", what,
              (times + std::to_string(n)).c_str(), depth, rates.median(), rates.min(), rates.max());
}

using Measure = double (*)(engine::Engine&, const BenchOptions&, unsigned seed);

Rates measure(engine::Engine& engine, const BenchOptions& options, const char* what, Measure run) {
  BenchOptions warm_up = options;  // fills caches and loads pages; needs no depth
  warm_up.depth = 0;
  return measure_rates(what, options.n_runs, [&](unsigned seed) {
    return run(engine, seed == 0 ? warm_up : options, seed);
  });
}

engine::EngineOptions engine_options(const BenchOptions& options) {
  engine::EngineOptions result = options.model.engine();
  if (!options.model.draft.empty() && options.model.max_draft == 0)
    result.max_draft = engine::kDefaultMaxDraft;
  result.max_sequences = std::max(result.max_sequences, options.n_parallel());
  return result;
}

// Throws Error if a sequence would not fit the context. A sequence that has read its prompt writes
// a token in each step while other sequences still read.
void check_context(const BenchOptions& options, size_t n_batch, size_t max_context) {
  const size_t n_reading_steps =
      options.n_parallel() > 1 ? (options.n_prompt / n_batch + 1) * options.n_parallel() : 0;
  const size_t n_written = options.generation_depth() + n_reading_steps + options.n_generate;
  const size_t needed = std::max(options.depth + options.n_prompt, n_written) + 2;
  if (needed <= max_context) return;
  throw Error(ErrorCode::kTooLarge, "depth and tokens together need a context of " +
                                        std::to_string(needed) + ", the model has " +
                                        std::to_string(max_context));
}

// Measures an encoder, which only reads texts.
void run_texts(gguf::File file, const BenchOptions& options) {
  const Json out = bench_texts(
      std::move(file), options.model.engine(),
      {.n_tokens = options.n_prompt, .n_texts = options.parallel, .n_runs = options.n_runs});
  if (options.json) {
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  const Json& rates = out["texts"];
  std::printf("%s, %d threads, kernels %s, median of %zu runs\n", options.model.model.c_str(),
              out["threads"].get<int>(), out["kernels"].get<std::string>().c_str(), options.n_runs);
  std::printf("%zu texts of %zu tokens a pass %10.1f tokens/s (%.1f to %.1f)\n",
              out["n_texts"].get<size_t>(), out["n_tokens"].get<size_t>(),
              rates["tokens_per_second"].get<double>(), rates["min"].get<double>(),
              rates["max"].get<double>());
}

void run(const BenchOptions& options) {
  const engine::EngineOptions with = engine_options(options);
  gguf::File file = gguf::File::open(options.model.model);
  if (arch::is_encoder(file)) return run_texts(std::move(file), options);
  engine::Engine engine(std::move(file), with);
  check_context(options, with.n_batch, engine.max_context());
  Json out = {{"model", options.model.model},     {"architecture", engine.model().architecture},
              {"kernels", engine.kernels().name}, {"threads", engine.n_threads()},
              {"parallel", options.n_parallel()}, {"depth", options.depth},
              {"n_prompt", options.n_prompt},     {"n_generate", options.n_generate}};
  if (!options.json) {
    std::printf("%s, %d threads, kernels %s, median of %zu runs\n", options.model.model.c_str(),
                engine.n_threads(), std::string(engine.kernels().name).c_str(), options.n_runs);
  }
  if (options.n_prompt > 0) {
    const Rates rates = measure(engine, options, "prompt", prompt_rate);
    out["prompt"] = rates.json();
    if (!options.json)
      print_rates(rates, "prompt", options.n_parallel(), options.n_prompt, options.depth);
  }
  if (options.n_generate > 0) {
    const Rates rates = measure(engine, options, "generate", generation_rate);
    out["generation"] = rates.json();
    out["generation"]["depth"] = options.generation_depth();
    if (!options.json) {
      print_rates(rates, "generate", options.n_parallel(), options.n_generate,
                  options.generation_depth());
    }
  }
  out["memory"] = memory_json(engine.memory());
  if (options.json) std::printf("%s\n", out.dump().c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure how fast a model reads prompts and writes");
  auto options = std::make_shared<BenchOptions>();
  options->model.max_draft = 0;  // measures rows without guessed tokens
  options->model.declare(*command);
  options->model.declare_draft(*command);
  command
      ->add_option("-p,--prompt-tokens", options->n_prompt,
                   "Tokens of the prompt, or of each text for an encoder; 0: do not measure")
      ->capture_default_str();
  command->add_option("-n,--num-predict", options->n_generate, "Tokens to write; 0: do not measure")
      ->capture_default_str();
  CLI::Option* depth = command
                           ->add_option("-d,--depth", options->depth,
                                        "Tokens that are in the context before the measurement")
                           ->capture_default_str();
  command
      ->add_option("--parallel", options->parallel,
                   "Sequences that run together, each with its own prompt (1); for an encoder: "
                   "texts per pass (texts with 2048 tokens in total)")
      ->check(CLI::Range(1, 1024))
      ->excludes(depth);
  command->add_option("-r,--runs", options->n_runs, "Number of runs; the median is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

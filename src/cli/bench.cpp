// billow bench: how fast prompts are read and answers written, at a depth of the context.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/memory_json.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  ModelOptions model;
  size_t n_prompt = 512;
  size_t n_generate = 128;
  size_t depth = 0;
  size_t n_runs = 5;
  bool json = false;
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

// Tokens a second over the last n_prompt tokens of a prompt.
double prompt_rate(engine::Engine& engine, const BenchOptions& options, unsigned seed) {
  const size_t n = options.depth + options.n_prompt;
  const auto sequence = engine.start(random_tokens(engine, n, seed), {.max_new_tokens = 0});
  while (sequence->n_evaluated() < options.depth)
    engine.step(options.depth - sequence->n_evaluated());
  const Clock::time_point start = Clock::now();
  while (!engine.idle()) engine.step();
  return rate(options.n_prompt, start);
}

double generation_rate(engine::Engine& engine, const BenchOptions& options, unsigned seed) {
  engine::SequenceOptions sequence_options;
  sequence_options.sampling.temperature = 0.0f;
  sequence_options.max_new_tokens = static_cast<int64_t>(options.n_generate) + 1;
  sequence_options.ignore_eos = true;
  engine.start(random_tokens(engine, std::max<size_t>(1, options.depth), seed), sequence_options);
  while (engine.step().empty()) continue;
  const Clock::time_point start = Clock::now();
  while (!engine.idle()) engine.step();
  return rate(options.n_generate, start);
}

struct Rates {
  std::vector<double> runs;
  double median() const {
    std::vector<double> sorted = runs;
    std::sort(sorted.begin(), sorted.end());
    const size_t n = sorted.size();
    return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  }
  Json json() const {
    return {{"tokens_per_second", median()},
            {"min", *std::min_element(runs.begin(), runs.end())},
            {"max", *std::max_element(runs.begin(), runs.end())},
            {"runs", runs}};
  }
  void print(const char* what, size_t n, size_t depth) const {
    std::printf("%-8s %6zu tokens at depth %-6zu %10.1f tokens/s (%.1f to %.1f)\n", what, n, depth,
                median(), *std::min_element(runs.begin(), runs.end()),
                *std::max_element(runs.begin(), runs.end()));
  }
};

template <class Measure>
Rates measure(const BenchOptions& options, const char* what, Measure run) {
  const bool progress = ::isatty(STDERR_FILENO) != 0;
  Rates rates;
  run(0u);  // warms pages and caches; not counted
  for (size_t i = 0; i < options.n_runs; ++i) {
    rates.runs.push_back(run(static_cast<unsigned>(i + 1)));
    if (progress)
      std::fprintf(stderr, "\r%s: run %zu of %zu, %.1f tokens/s\033[K", what, i + 1, options.n_runs,
                   rates.runs.back());
  }
  if (progress) std::fprintf(stderr, "\r\033[K");
  return rates;
}

void run(const BenchOptions& options) {
  engine::Engine engine(options.model.model, options.model.engine());
  const size_t needed = options.depth + std::max(options.n_prompt, options.n_generate) + 2;
  if (needed > engine.max_context()) {
    throw Error(ErrorCode::kTooLarge, "depth and tokens together need a context of " +
                                          std::to_string(needed) + ", the model has " +
                                          std::to_string(engine.max_context()));
  }
  Json out = {{"model", options.model.model},     {"architecture", engine.model().architecture},
              {"kernels", engine.kernels().name}, {"threads", engine.n_threads()},
              {"depth", options.depth},           {"n_prompt", options.n_prompt},
              {"n_generate", options.n_generate}};
  if (!options.json) {
    std::printf("%s, %d threads, kernels %s, median of %zu runs\n", options.model.model.c_str(),
                engine.n_threads(), std::string(engine.kernels().name).c_str(), options.n_runs);
  }
  if (options.n_prompt > 0) {
    const Rates rates = measure(options, "prompt",
                                [&](unsigned seed) { return prompt_rate(engine, options, seed); });
    out["prompt"] = rates.json();
    if (!options.json) rates.print("prompt", options.n_prompt, options.depth);
  }
  if (options.n_generate > 0) {
    const Rates rates = measure(
        options, "generate", [&](unsigned seed) { return generation_rate(engine, options, seed); });
    out["generation"] = rates.json();
    if (!options.json) rates.print("generate", options.n_generate, options.depth);
  }
  out["memory"] = memory_json(engine.memory());
  if (options.json) std::printf("%s\n", out.dump().c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure how fast a model reads prompts and writes");
  auto options = std::make_shared<BenchOptions>();
  options->model.declare(*command);
  command
      ->add_option("-p,--prompt-tokens", options->n_prompt,
                   "Tokens of the prompt; 0: do not measure")
      ->capture_default_str();
  command->add_option("-n,--num-predict", options->n_generate, "Tokens to write; 0: do not measure")
      ->capture_default_str();
  command->add_option("-d,--depth", options->depth, "Tokens in the context before")
      ->capture_default_str();
  command->add_option("-r,--runs", options->n_runs, "Runs; the median is reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

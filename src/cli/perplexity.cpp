// billow perplexity: measures how well a model predicts a text.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/client/progress_text.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/terminal_line.h"
#include "engine/perplexity.h"

namespace billow::cli {
namespace {

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  size_t n_ctx = 512;
  std::string overflow_policy;
  engine::TextOptions text;
  bool json = false;
};

engine::TextOptions text_options(const PerplexityOptions& options) {
  engine::TextOptions text = options.text;
  text.context.max_context = options.n_ctx;
  text.context.policy = options.overflow_policy == "shift" ? context::OverflowPolicy::kShift
                                                           : context::OverflowPolicy::kRefill;
  return text;
}

void run(const PerplexityOptions& options) {
  const MappedFile text(options.file);
  engine::Engine engine(options.model.model, options.model.engine());
  const std::string_view view(reinterpret_cast<const char*>(text.bytes().data()),
                              text.bytes().size());
  const std::vector<int32_t> tokens = engine.tokenizer().encode(view);
  const bool progress = is_smart_terminal(STDERR_FILENO);
  const auto show = [&](const engine::Perplexity& so_far, size_t n_chunks) {
    if (progress) {
      draw_line(cut_to_columns(
          fmt::format("chunk {} of {}: {:.4f}", so_far.n_chunks, n_chunks, so_far.value),
          progress_columns()));
    }
  };
  const engine::Perplexity result =
      options.overflow_policy.empty()
          ? engine::perplexity(engine, tokens, options.n_ctx, show)
          : engine::overflowing_perplexity(engine, tokens, text_options(options));
  if (progress) erase_line();
  if (options.json) {
    const Json out = {{"perplexity", result.value},  {"error", result.error},
                      {"n_tokens", tokens.size()},   {"n_scored", result.n_scored},
                      {"n_chunks", result.n_chunks}, {"n_ctx", options.n_ctx}};
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("perplexity: %.4f +/- %.5f over %zu tokens in %zu chunks of %zu\n", result.value,
                result.error, result.n_scored, result.n_chunks, options.n_ctx);
  }
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  auto options = std::make_shared<PerplexityOptions>();
  options->model.declare(*command);
  command->add_option("-f,--file", options->file, "The text")->required();
  command
      ->add_option("-c,--ctx", options->n_ctx,
                   "Tokens per chunk; the second half of each chunk is scored")
      ->capture_default_str();
  command
      ->add_option("--overflow-policy", options->overflow_policy,
                   "Read the text as one sequence whose context overflows, and score the tokens "
                   "after the first overflow: refill or shift")
      ->check(CLI::IsMember({"refill", "shift"}));
  command
      ->add_option("--anchor", options->text.n_anchor,
                   "With --overflow-policy: tokens to keep at the beginning")
      ->capture_default_str();
  command
      ->add_option("--overflow-reserve-batches", options->text.context.compaction.reserve_batches,
                   "With --overflow-policy: batches of recent tokens to keep")
      ->capture_default_str();
  command
      ->add_option("--overflow-batch", options->text.context.compaction.batch,
                   "With --overflow-policy: tokens per batch")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

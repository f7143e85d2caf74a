#include "cli/embed_sizes.h"

#include <CLI/CLI.hpp>

namespace billow::cli {
namespace {

using engine::EmbedSettings;

struct Row {
  const char* names;
  const char* name;  // the long one
  const char* help;
  std::optional<size_t> EmbedSettings::* setting;
  std::optional<uint64_t> scheduler::Environment::* variable;
};

constexpr Row kRows[] = {
    {"-b,--n-batch", "--n-batch",
     "Tokens of texts to embed that share a pass; 2048 if not given (BILLOW_N_BATCH)",
     &EmbedSettings::n_batch, &scheduler::Environment::n_batch},
    {"--n-ubatch", "--n-ubatch",
     "Tokens of the longest text to embed; as n_batch where that is given, else all that the model "
     "takes (BILLOW_N_UBATCH)",
     &EmbedSettings::n_ubatch, &scheduler::Environment::n_ubatch},
    {"--n-seq-max", "--n-seq-max",
     "Texts that buffers of a pass are made for, which does not limit it (BILLOW_N_SEQ_MAX)",
     &EmbedSettings::n_seq_max, &scheduler::Environment::n_seq_max},
    {"--context-size", "--context-size",
     "Tokens of all passes in flight; the greater of four passes and the model's maximum if not "
     "given (BILLOW_CONTEXT_SIZE)",
     &EmbedSettings::context_size, &scheduler::Environment::context_size},
};

}  // namespace

void declare_embed_sizes(CLI::App& command, EmbedSettings& settings) {
  for (const Row& row : kRows)
    command.add_option(row.names, settings.*row.setting, row.help)->group("Texts to embed");
}

EmbedSettings with_environment(EmbedSettings settings, const scheduler::Environment& environment) {
  for (const Row& row : kRows)
    if (!(settings.*row.setting)) settings.*row.setting = environment.*row.variable;
  return settings;
}

std::vector<std::string> embed_size_arguments(const EmbedSettings& settings) {
  std::vector<std::string> arguments;
  for (const Row& row : kRows) {
    if (!(settings.*row.setting)) continue;
    arguments.emplace_back(row.name);
    arguments.push_back(std::to_string(*(settings.*row.setting)));
  }
  return arguments;
}

}  // namespace billow::cli

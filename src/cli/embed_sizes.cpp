#include "cli/embed_sizes.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/option_checks.h"
#include "cli/option_variables.h"

namespace billow::cli {
namespace {

using engine::EmbedSettings;

struct Row {
  const char* names;
  const char* name;  // the long option
  const char* help;
  std::optional<size_t> EmbedSettings::* setting;
  std::optional<uint64_t> scheduler::Environment::* variable;
};

constexpr Row kRows[] = {
    {"-b,--n-batch", "--n-batch",
     "Max tokens of texts that share a pass; default: 2048 (BILLOW_N_BATCH)",
     &EmbedSettings::n_batch, &scheduler::Environment::n_batch},
    {"--n-ubatch", "--n-ubatch",
     "Max tokens of a text; default: --n-batch if given, else the model's maximum "
     "(BILLOW_N_UBATCH)",
     &EmbedSettings::n_ubatch, &scheduler::Environment::n_ubatch},
    {"--n-seq-max", "--n-seq-max",
     "Number of texts that the buffers of a pass are allocated for; not a limit (BILLOW_N_SEQ_MAX)",
     &EmbedSettings::n_seq_max, &scheduler::Environment::n_seq_max},
    {"--context-size", "--context-size",
     "Max tokens of all passes in flight; default: the larger of four passes and the model's "
     "maximum (BILLOW_CONTEXT_SIZE)",
     &EmbedSettings::context_size, &scheduler::Environment::context_size},
    {"--max-batches", "--max-batches",
     "Max passes in flight, within --context-size; they share the cores (BILLOW_MAX_BATCHES)",
     &EmbedSettings::max_batches, &scheduler::Environment::max_batches},
};

struct FaultRow {
  const char* name;
  const char* help;
  size_t engine::EmbedFaults::* fault;
};

constexpr FaultRow kFaults[] = {
    {"--fail-embed-every", "Fail each n-th allocation of a pass over texts to embed",
     &engine::EmbedFaults::every},
    {"--fail-embed-above", "Fail allocations of passes with more tokens than this",
     &engine::EmbedFaults::above_tokens},
};
constexpr const char* kAllowFaults = "--allow-faults";

}  // namespace

void declare_embed_sizes(CLI::App& command, EmbedSettings& settings) {
  for (const Row& row : kRows)
    command.add_option(row.names, settings.*row.setting, row.help)
        ->check(whole_number(1))
        ->group("Texts to embed");
}

EmbedSettings with_environment(const EmbedSettings& settings,
                               const scheduler::Environment& environment,
                               const scheduler::Warn& warn) {
  EmbedSettings all = settings;
  std::string names;
  for (const Row& row : kRows) {
    if (settings.*row.setting || (environment.*row.variable).value_or(0) == 0) continue;
    all.*row.setting = environment.*row.variable;
    names += (names.empty() ? "" : ", ") + deciding_variable(variable_of(row.name + 2));
  }
  try {
    (void)engine::resolve_sizes(all, 0);
  } catch (const Error& error) {
    if (names.empty()) return settings;
    warn(names + ": " + error.what() + "; the default is used");
    return settings;
  }
  return all;
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

void declare_embed_faults(CLI::App& command, engine::EmbedFaults& faults) {
  CLI::Option* allow = command.add_flag(kAllowFaults)
                           ->description("Allow the options that make allocations fail")
                           ->group("Faults, for tests");
  for (const FaultRow& row : kFaults)
    command.add_option(row.name, faults.*row.fault, row.help)
        ->check(whole_number(1))
        ->needs(allow)
        ->group("Faults, for tests");
}

std::vector<std::string> embed_fault_arguments(const engine::EmbedFaults& faults) {
  std::vector<std::string> arguments;
  if (faults.any()) arguments.emplace_back(kAllowFaults);
  for (const FaultRow& row : kFaults) {
    if (faults.*row.fault == 0) continue;
    arguments.emplace_back(row.name);
    arguments.push_back(std::to_string(faults.*row.fault));
  }
  return arguments;
}

}  // namespace billow::cli

// Options and environment variables of `serve` and `runner` for passes over texts to embed: sizes
// of passes, and faults for tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/embed/faulty_model.h"
#include "engine/embed/plan.h"
#include "scheduler/environment.h"

namespace CLI {
class App;
}

namespace billow::cli {

// Declares --n-batch (-b), --n-ubatch, --n-seq-max, --context-size and --max-batches.
void declare_embed_sizes(CLI::App& command, engine::EmbedSettings& settings);
// Returns `settings`, with missing values from the environment. If these do not fit together or to
// the settings, warns and returns `settings`.
engine::EmbedSettings with_environment(
    const engine::EmbedSettings& settings, const scheduler::Environment& environment,
    const scheduler::Warn& warn = [](const std::string&) {});
// Returns command line arguments that pass the settings to a runner.
std::vector<std::string> embed_size_arguments(const engine::EmbedSettings& settings);

// Declares --fail-embed-every and --fail-embed-above. Both need --allow-faults.
void declare_embed_faults(CLI::App& command, engine::EmbedFaults& faults);
std::vector<std::string> embed_fault_arguments(const engine::EmbedFaults& faults);

}  // namespace billow::cli

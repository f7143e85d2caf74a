// The options and variables for passes over texts to embed, as `serve` and `runner` have them:
// their sizes, and faults for tests.
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

// --n-batch (-b), --n-ubatch, --n-seq-max, --context-size and --max-batches.
void declare_embed_sizes(CLI::App& command, engine::EmbedSettings& settings);
// Those of the command, and of the environment where it has none.
engine::EmbedSettings with_environment(engine::EmbedSettings settings,
                                       const scheduler::Environment& environment);
// The options again, for a runner.
std::vector<std::string> embed_size_arguments(const engine::EmbedSettings& settings);

// --fail-embed-every and --fail-embed-above, both refused without --allow-faults.
void declare_embed_faults(CLI::App& command, engine::EmbedFaults& faults);
std::vector<std::string> embed_fault_arguments(const engine::EmbedFaults& faults);

}  // namespace billow::cli

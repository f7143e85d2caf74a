// The options and variables for the sizes of passes over texts to embed, as `serve` and `runner`
// have them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/embed/plan.h"
#include "scheduler/environment.h"

namespace CLI {
class App;
}

namespace billow::cli {

// --n-batch (-b), --n-ubatch, --n-seq-max and --context-size.
void declare_embed_sizes(CLI::App& command, engine::EmbedSettings& settings);
// Those of the command, and of the environment where it has none.
engine::EmbedSettings with_environment(engine::EmbedSettings settings,
                                       const scheduler::Environment& environment);
// The options again, for a runner.
std::vector<std::string> embed_size_arguments(const engine::EmbedSettings& settings);

}  // namespace billow::cli

#include "cli/engine_options.h"

#include <CLI/CLI.hpp>

namespace billow::cli {

void ModelOptions::declare(CLI::App& command) {
  command.add_option("-m,--model", model, "GGUF file of the model")->required();
  command
      .add_option("-t,--threads", n_threads,
                  "Threads; 0: as many as there are physical cores to use")
      ->check(CLI::Range(0, 1024));
  command.add_option("--max-context", max_context,
                     "Tokens that a sequence may reach; 0: the model's maximum");
}

engine::EngineOptions ModelOptions::engine() const {
  engine::EngineOptions options;
  options.n_threads = n_threads;
  options.max_context = max_context;
  return options;
}

}  // namespace billow::cli

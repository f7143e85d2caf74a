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
  command
      .add_option("--kv-type", kv_type,
                  "How keys and values are kept: f16, 16 bits each, or q8_0 in half the memory")
      ->check(CLI::IsMember({"f16", "q8_0"}))
      ->capture_default_str();
}

engine::EngineOptions ModelOptions::engine() const {
  engine::EngineOptions options;
  options.n_threads = n_threads;
  options.max_context = max_context;
  options.kv_type = kv_type == "q8_0" ? kernels::KvType::kQ8_0 : kernels::KvType::kInt16;
  return options;
}

}  // namespace billow::cli

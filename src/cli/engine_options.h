// The options that every command with an engine has: which model, how many threads, what KV memory.
#pragma once

#include <string>

#include "engine/engine.h"

namespace CLI {
class App;
}

namespace billow::cli {

struct ModelOptions {
  std::string model;
  int n_threads = 0;
  size_t max_context = 0;
  std::string kv_type = "f16";

  void declare(CLI::App& command);
  engine::EngineOptions engine() const;
};

}  // namespace billow::cli

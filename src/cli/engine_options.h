// Options that all commands with an engine share: model, threads, memory.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace billow::cli {

inline constexpr unsigned kLongestPassTime = 60'000;  // max of --max-pass-time, in ms
inline constexpr size_t kMaxDraft = 256;              // max of --draft-max
inline constexpr const char* kDefaultPackedLimit = "16G";
inline constexpr const char* kDefaultMemory = "80%";  // the engine's default, too

// Declares --kv-type. Only the names of kernels/kv_names.h are accepted.
CLI::Option* add_kv_type(CLI::App& command, std::string& name);
kernels::KvType kv_type_of(const std::string& name);  // of an accepted name

struct ModelOptions {
  std::string model;
  int n_threads = 0;
  size_t max_context = 0;
  std::string kv_type = "f16";
  size_t max_draft = engine::kDefaultMaxDraft;
  std::string memory = kDefaultMemory;  // a size like 2G, or a share like 80%
  std::vector<std::string> adapters;    // FILE or FILE:SCALE
  std::string packed_dir;               // empty: packed weights are not stored on disk
  std::string packed_limit = kDefaultPackedLimit;
  std::string draft;  // file of a draft model; empty: no draft model

  void declare(CLI::App& command);
  // Declares all options of declare() except --max-context, for commands with their own option for
  // the context.
  void declare_without_context(CLI::App& command);
  // Declares --draft, for commands that generate text.
  void declare_draft(CLI::App& command);
  // Returns the engine's options. Throws Error if --adapter has no valid scale after its colon.
  engine::EngineOptions engine() const;
  engine::AdapterFiles adapter_files() const;

 private:
  void declare_packed_cache(CLI::App& command);
};

}  // namespace billow::cli

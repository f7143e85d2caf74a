// The options that every command with an engine has: which model, how many threads, what memory.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace CLI {
class App;
}

namespace billow::cli {

inline constexpr unsigned kLongestPassTime = 60'000;  // milliseconds, of --max-pass-time
inline constexpr size_t kMaxDraft = 256;              // of --draft-max
inline constexpr const char* kDefaultPackedLimit = "16G";
inline constexpr const char* kDefaultMemory = "80%";  // as engines do unasked

// Of an option that is "f16", "q8_0" or "f32".
kernels::KvType kv_type_of(const std::string& name);

struct ModelOptions {
  std::string model;
  int n_threads = 0;
  size_t max_context = 0;
  std::string kv_type = "f16";
  size_t max_draft = engine::kDefaultMaxDraft;
  std::string memory = kDefaultMemory;  // as people write sizes
  std::vector<std::string> adapters;    // FILE or FILE:SCALE
  std::string packed_dir;               // empty: packed weights are not kept on disk
  std::string packed_limit = kDefaultPackedLimit;
  std::string draft;  // file of a draft model; empty: there is none

  void declare(CLI::App& command);
  // The same but --max-context, for a command that has an option of its own for it.
  void declare_without_context(CLI::App& command);
  // --draft, for commands that write.
  void declare_draft(CLI::App& command);
  // Throws Error where --memory or --packed-limit is no size, or --adapter has no scale behind its
  // colon.
  engine::EngineOptions engine() const;
  engine::AdapterFiles adapter_files() const;

 private:
  void declare_packed_cache(CLI::App& command);
};

}  // namespace billow::cli

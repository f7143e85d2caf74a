// The options of `billow serve`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/engine_options.h"
#include "engine/embed/faulty_model.h"
#include "engine/embed/plan.h"
#include "scheduler/time.h"

namespace CLI {
class App;
}

namespace billow::cli {

inline constexpr size_t kMaxParallel = 1024;            // of a runner
inline constexpr uint64_t kMaxStreamInterval = 10'000;  // ms, of a runner

inline constexpr std::string_view kUnix = "unix:";  // before the path of a Unix socket

struct ServeOptions {
  const CLI::App* command = nullptr;  // that declares them
  std::string config;  // the file is read before the options are parsed: config_file.h
  std::string host;    // HOST[:PORT]
  std::string socket;
  std::string models;
  std::string origins;
  std::string api_keys;
  std::string keep_alive;
  std::string num_ctx_policy = "ignore";
  size_t max_context = 0;
  std::vector<size_t> sizes;
  std::string overflow_policy = "refill";
  size_t reserve_batches = 9;
  size_t overflow_batch = 64;
  std::optional<size_t> n_parallel;
  std::optional<size_t> n_max_loaded;
  std::optional<size_t> n_max_queue;
  std::string memory = kDefaultMemory;
  int n_threads = 0;
  std::string kv_type;
  std::string engine;  // empty: use the environment
  std::string llama_server;
  std::optional<uint64_t> stream_interval;  // milliseconds
  std::optional<uint64_t> max_draft;        // tokens
  std::optional<uint64_t> max_pass_time;    // milliseconds
  engine::EmbedSettings embed;
  engine::EmbedFaults embed_faults;
  size_t max_connections = 4096;
  std::string max_body = "256M";
  std::string max_bodies;
  double drain_delay = -1.0;
  double drain_timeout = 30.0;
  std::vector<std::string> preload;
  bool read_only = false;
  std::vector<std::string> picture_hosts;
  std::string packed_limit;
  std::string sessions_limit;
  std::string registry_mirror;
  std::string otlp;
  std::string node_name;
  std::string metrics_alias;
  size_t n_traces = 1000;
  std::string web_page;  // empty: use the environment
  std::string api_version = "0.33.0";
};

// Declares the command `serve` with its options; the caller decides what it does. The checks of the
// options accept only values with which the server can start, as far as one value decides that.
std::shared_ptr<ServeOptions> declare_serve(CLI::App& app);

// Parses a keep-alive as in the variable: whole seconds or a duration. Throws Error.
scheduler::Duration keep_alive_of(const std::string& text);

}  // namespace billow::cli

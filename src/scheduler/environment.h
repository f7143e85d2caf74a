// Settings from environment variables: BILLOW_NAME, else OLLAMA_NAME, else the default. A function
// reads the variables, so that tests need no real ones. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/engine_choice.h"
#include "scheduler/messages.h"
#include "scheduler/time.h"

namespace billow::scheduler {

// The address where the server listens and clients connect.
struct Endpoint {
  std::string scheme = "http";
  std::string host = "127.0.0.1";  // without brackets; empty: all interfaces
  uint16_t port = 11434;
  std::string
      path;  // after the host, without the first '/'; clients use it as a prefix of their paths
  bool operator==(const Endpoint&) const = default;

  std::string url() const;  // "http://[::1]:11434/path"
  // Returns an address for clients, which cannot connect to "all interfaces".
  Endpoint for_clients() const;
};

// Default number of requests that run on a model at the same time. The engine evaluates the tokens
// of all of them in one pass, which is faster than one request after the other. A single request
// loses nothing. Requests without memory wait.
inline constexpr size_t kAutoParallel = 8;

enum class DebugLevel : uint8_t { kOff, kDebug, kTrace };

// The comment of each field is the variable's name without its prefix.
struct Environment {
  Endpoint host;       // HOST
  std::string models;  // MODELS: folder of the store; empty: HOME is not set
  Duration keep_alive = std::chrono::minutes(5);          // KEEP_ALIVE: negative is kForever
  Duration load_timeout = std::chrono::minutes(5);        // LOAD_TIMEOUT: 0 or negative is kForever
  uint64_t n_parallel = 0;                                // NUM_PARALLEL: 0 is kAutoParallel
  uint64_t n_max_loaded = 0;                              // MAX_LOADED_MODELS: 0 is automatic
  uint64_t n_max_queue = 512;                             // MAX_QUEUE
  uint64_t context_length = 0;                            // CONTEXT_LENGTH: 0 is automatic
  std::optional<bool> flash_attention;                    // FLASH_ATTENTION
  std::string kv_cache_type = "f16";                      // KV_CACHE_TYPE: f16, q8_0, q4_0, f32
  uint64_t gpu_overhead_bytes = 0;                        // GPU_OVERHEAD
  bool spread = false;                                    // SCHED_SPREAD
  std::vector<std::string> origins;                       // ORIGINS: additional allowed origins
  DebugLevel debug = DebugLevel::kOff;                    // DEBUG
  bool log_requests = false;                              // DEBUG_LOG_REQUESTS
  bool no_history = false;                                // NOHISTORY
  bool no_prune = false;                                  // NOPRUNE
  bool no_cloud = false;                                  // NO_CLOUD
  std::vector<std::string> remotes = {"ollama.com"};      // REMOTES
  std::optional<bool> go_template;                        // GO_TEMPLATE
  std::string editor;                                     // EDITOR
  bool auth = false;                                      // AUTH
  std::string llm_library;                                // LLM_LIBRARY
  bool vulkan = false;                                    // VULKAN
  bool igpu = false;                                      // IGPU_ENABLE
  std::optional<uint64_t> n_transfer_streams;             // MAX_TRANSFER_STREAMS: per download
  std::string cloud_base_url = "https://ollama.com:443";  // CLOUD_BASE_URL
  std::optional<uint64_t> stream_interval;                // STREAM_INTERVAL, ms; not Ollama's
  std::optional<uint64_t> max_pass_time;                  // MAX_PASS_TIME, ms; not Ollama's
  std::optional<uint64_t> max_draft;                      // DRAFT_MAX: tokens; not Ollama's
  std::string packed_limit;                               // PACKED_LIMIT: a size; not Ollama's
  std::string sessions_limit;                             // SESSIONS_LIMIT: a size; not Ollama's
  std::string otlp;                                       // OTLP: a collector; not Ollama's
  std::string registry_mirror;                            // REGISTRY_MIRROR; not Ollama's
  std::string api_keys;                                   // API_KEYS: a file; not Ollama's
  bool web_page = true;                                   // WEB_PAGE; not Ollama's
  Engine engine = Engine::kAuto;                          // ENGINE; not Ollama's
  std::string llama_server;                               // LLAMA_SERVER; not Ollama's
  // Passes of embedding models; none of these is Ollama's.
  std::optional<uint64_t> n_batch;       // N_BATCH
  std::optional<uint64_t> n_ubatch;      // N_UBATCH
  std::optional<uint64_t> n_seq_max;     // N_SEQ_MAX
  std::optional<uint64_t> context_size;  // CONTEXT_SIZE
  std::optional<uint64_t> max_batches;   // MAX_BATCHES
};

// Returns the value of a variable, or nullopt if it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
// Receives one line for each value that is ignored.
using Warn = std::function<void(const std::string& text)>;

// Reads all settings. Blanks and quotes around a value are removed; an empty value counts as not
// set. A flag that is neither yes nor no is yes. Other invalid values are ignored with a warning.
Environment read_environment(const Lookup& lookup, const Warn& warn);

// Parses "host", "host:port", "[::1]:80", "scheme://host/path", or any part of these. `name` is the
// variable's name in warnings.
Endpoint parse_endpoint(std::string_view text, std::string_view name, const Warn& warn);

// Returns the planner's options from the settings.
Options planner_options(const Environment& environment, uint64_t budget_bytes);

}  // namespace billow::scheduler

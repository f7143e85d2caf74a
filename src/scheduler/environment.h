// The settings that come from the environment: BILLOW_NAME, else OLLAMA_NAME, else the default. The
// variables are read through a function, so that tests need none. Pure functions; any thread.
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

// Where the server listens and clients go.
struct Endpoint {
  std::string scheme = "http";
  std::string host = "127.0.0.1";  // without brackets; empty: every interface
  uint16_t port = 11434;
  std::string path;  // behind the host, without the first '/'; clients put it before theirs
  bool operator==(const Endpoint&) const = default;

  std::string url() const;  // "http://[::1]:11434/path"
  // The same for a client: "every interface" is no address that one can go to.
  Endpoint for_clients() const;
};

// Requests that run on one model at once where nobody says how many. The engine evaluates the
// tokens of all of them in one pass, so that together they are faster than one after the other; a
// request that is alone loses nothing by it, and those for which there is no memory wait.
inline constexpr size_t kAutoParallel = 8;

enum class DebugLevel : uint8_t { kOff, kDebug, kTrace };

// A field's comment is the name behind the prefix.
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
  std::vector<std::string> origins;                       // ORIGINS: more of them
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
  std::optional<uint64_t> n_transfer_streams;             // MAX_TRANSFER_STREAMS: of a download
  std::string cloud_base_url = "https://ollama.com:443";  // CLOUD_BASE_URL
  std::optional<uint64_t> stream_interval;                // STREAM_INTERVAL, ms; not Ollama's
  std::optional<uint64_t> max_pass_time;                  // MAX_PASS_TIME, ms; not Ollama's
  std::optional<uint64_t> max_draft;                      // DRAFT_MAX: tokens; not Ollama's
  std::string packed_limit;                               // PACKED_LIMIT: a size; not Ollama's
  std::string sessions_limit;                             // SESSIONS_LIMIT: a size; not Ollama's
  std::string registry_mirror;                            // REGISTRY_MIRROR; not Ollama's
  bool web_page = true;                                   // WEB_PAGE; not Ollama's
  Engine engine = Engine::kAuto;                          // ENGINE; not Ollama's
  std::string llama_server;                               // LLAMA_SERVER; not Ollama's
  // Of passes over texts to embed; none is Ollama's.
  std::optional<uint64_t> n_batch;       // N_BATCH
  std::optional<uint64_t> n_ubatch;      // N_UBATCH
  std::optional<uint64_t> n_seq_max;     // N_SEQ_MAX
  std::optional<uint64_t> context_size;  // CONTEXT_SIZE
  std::optional<uint64_t> max_batches;   // MAX_BATCHES
};

// A variable's value; nothing where it is not set.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
// Told one line about each value that was disregarded.
using Warn = std::function<void(const std::string& text)>;

// Blanks and quotes around a value are dropped, and an empty one is as good as none. A flag that is
// neither yes nor no is yes; other values that make no sense are disregarded with a warning.
Environment read_environment(const Lookup& lookup, const Warn& warn);

// "host", "host:port", "[::1]:80", "scheme://host/path", or any part of it. `name` is for warnings.
Endpoint parse_endpoint(std::string_view text, std::string_view name, const Warn& warn);

// What the planner takes of it.
Options planner_options(const Environment& environment, uint64_t budget_bytes);

}  // namespace billow::scheduler

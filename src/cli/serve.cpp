// billow serve: starts the server. Its settings come from the environment, as Ollama's do, and from
// options. Options override the environment.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/embed_sizes.h"
#include "cli/engine_options.h"
#include "cli/shutdown.h"
#include "cli/variable.h"
#include "cli/version.h"
#include "cpu/cores.h"
#include "cpu/memory.h"
#include "kernels/kernel_table.h"
#include "registry/origin.h"
#include "scheduler/environment.h"
#include "scheduler/keep_alive.h"
#include "scheduler/runner_process.h"
#include "server/server.h"

namespace billow::cli {
namespace {

using std::chrono::milliseconds;

struct ServeOptions {
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

constexpr milliseconds kTrimEvery = std::chrono::minutes(1);

// Runners run this program, too.
constexpr const char* kProgram = "/proc/self/exe";
constexpr size_t kMaxTransferStreams = 64;
constexpr size_t kMaxParallel = 1024;            // of a runner
constexpr uint64_t kMaxStreamInterval = 10'000;  // ms, of a runner

constexpr std::string_view kUnix = "unix:";  // before the path of a Unix socket

void warn(const std::string& text) { log::warn(text); }
// Options must make sense, where variables of the environment only cause a warning.
void refuse(const std::string& text) {
  throw Error(ErrorCode::kInvalidInput,
              text.substr(0, text.find(';')));  // what follows is the default
}

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
}

// Returns the default of --drain-delay. A load balancer needs time to see that the host shuts down;
// a person at a terminal does not.
milliseconds default_drain_delay() {
  const bool supervised =
      variable("INVOCATION_ID") || variable("NOTIFY_SOCKET") || variable("KUBERNETES_SERVICE_HOST");
  return supervised ? milliseconds(5000) : milliseconds(0);
}

milliseconds of_seconds(double seconds) {
  return milliseconds(static_cast<int64_t>(seconds * 1000.0));
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

std::string kv_type_of(const ServeOptions& options, const scheduler::Environment& environment) {
  return options.kv_type.empty() ? environment.kv_cache_type : options.kv_type;
}

// Returns the settings for requests to registries.
registry::ClientOptions registry_options(const ServeOptions& options,
                                         const scheduler::Environment& environment) {
  registry::ClientOptions made;
  made.transport.user_agent = std::string("billow/") + BILLOW_VERSION;
  made.transport.ca_file = variable("SSL_CERT_FILE").value_or("");
  if (const std::string home = variable("HOME").value_or(""); !home.empty()) {
    made.key_path = home + "/.ollama/id_ed25519";
    made.docker_config = variable("DOCKER_CONFIG").value_or(home + "/.docker") + "/config.json";
  }
  made.mirror =
      options.registry_mirror.empty() ? environment.registry_mirror : options.registry_mirror;
  while (made.mirror.ends_with('/')) made.mirror.pop_back();
  if (!made.mirror.empty() && !registry::origin_of(made.mirror))
    throw Error(ErrorCode::kInvalidInput, "the registry mirror is not an address: " + made.mirror +
                                              "; write http://HOST:PORT or https://HOST");
  if (const auto n = environment.n_transfer_streams; n && *n > 0)
    made.download.n_at_once = std::min<size_t>(*n, kMaxTransferStreams);
  return made;
}

server::CollectorOptions collector_of(const ServeOptions& options,
                                      const scheduler::Environment& environment) {
  server::CollectorOptions made;
  made.url = options.otlp.empty() ? environment.otlp : options.otlp;
  if (made.url.empty()) return made;
  (void)server::traces_url(made.url);  // checks it
  made.headers = server::collector_headers(variable("OTEL_EXPORTER_OTLP_HEADERS").value_or(""));
  made.ca_file = variable("SSL_CERT_FILE").value_or("");
  return made;
}

std::string models_folder(const ServeOptions& options, const scheduler::Environment& environment) {
  std::string folder = options.models.empty() ? environment.models : options.models;
  if (!folder.empty()) return folder;
  throw Error(ErrorCode::kInvalidInput,
              "no folder for models: HOME is not set; set HOME or OLLAMA_MODELS, or give --models");
}

// Parses the size of an option. The first text that is not empty counts.
uint64_t size_of(const char* option, const std::string& given, const std::string& variable,
                 const char* fallback) {
  try {
    return parse_byte_size(!given.empty() ? given : !variable.empty() ? variable : fallback);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(option) + ": " + error.what());
  }
}

uint64_t sessions_limit(const ServeOptions& options, const scheduler::Environment& environment) {
  return size_of("--sessions-limit", options.sessions_limit, environment.sessions_limit, "0");
}

// The part of --sessions-limit for saved slots. The rest is for KV.
constexpr uint64_t kSlotsPart = 16;

// Returns the options of all runners; the model is not among them.
std::vector<std::string> runner_arguments(const ServeOptions& options,
                                          const scheduler::Environment& environment,
                                          const engine::EmbedSettings& embed) {
  std::vector<std::string> arguments = embed_size_arguments(embed);
  const std::vector<std::string> faults = embed_fault_arguments(options.embed_faults);
  arguments.insert(arguments.end(), faults.begin(), faults.end());
  arguments.insert(arguments.end(), {"--kv-type", kv_type_of(options, environment)});
  if (const auto interval =
          options.stream_interval ? options.stream_interval : environment.stream_interval) {
    arguments.emplace_back("--stream-interval");
    arguments.push_back(std::to_string(std::min(*interval, kMaxStreamInterval)));
  }
  if (const auto max_time =
          options.max_pass_time ? options.max_pass_time : environment.max_pass_time) {
    arguments.emplace_back("--max-pass-time");
    arguments.push_back(std::to_string(std::min<uint64_t>(*max_time, kLongestPassTime)));
  }
  if (const auto max_draft = options.max_draft ? options.max_draft : environment.max_draft) {
    arguments.emplace_back("--draft-max");
    arguments.push_back(std::to_string(std::min<uint64_t>(*max_draft, kMaxDraft)));
  }
  const std::string& llama_server =
      options.llama_server.empty() ? environment.llama_server : options.llama_server;
  if (!llama_server.empty()) arguments.insert(arguments.end(), {"--llama-server", llama_server});
  if (options.n_threads > 0) {
    arguments.emplace_back("--threads");
    arguments.push_back(std::to_string(options.n_threads));
  }
  const uint64_t packed = size_of("--packed-limit", options.packed_limit, environment.packed_limit,
                                  kDefaultPackedLimit);
  const uint64_t sessions = sessions_limit(options, environment);
  const std::string models = models_folder(options, environment);
  for (const auto& [name, limit] :
       {std::pair("packed", packed), std::pair("sessions", sessions - sessions / kSlotsPart)}) {
    if (limit == 0 || options.read_only) continue;
    const std::string option = "--" + std::string(name);
    arguments.insert(arguments.end(), {option + "-dir", models + "/" + name, option + "-limit",
                                       std::to_string(limit)});
  }
  return arguments;
}

// Parses a keep-alive as in the variable: whole seconds or a duration.
scheduler::Duration keep_alive_of(const std::string& text) {
  int64_t seconds = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failed == std::errc() && end == text.data() + text.size())
    return scheduler::keep_alive_from_seconds(static_cast<double>(seconds));
  return scheduler::keep_alive_from_text(text);
}

scheduler::Options models_loaded(const ServeOptions& options,
                                 const scheduler::Environment& environment) {
  const uint64_t budget = parse_byte_size(options.memory, cpu::usable_memory());
  scheduler::Options loaded = planner_options(environment, budget);
  if (options.n_parallel) loaded.n_parallel = *options.n_parallel;
  if (options.n_max_loaded) loaded.n_max_loaded = *options.n_max_loaded;
  if (options.n_max_queue) loaded.n_max_queue = *options.n_max_queue;
  if (!options.keep_alive.empty()) {
    try {
      loaded.keep_alive = keep_alive_of(options.keep_alive);
    } catch (const Error& error) {
      throw Error(error.code(), std::string("--keep-alive: ") + error.what());
    }
  }
  loaded.n_parallel = std::min(loaded.n_parallel, kMaxParallel);
  return loaded;
}

api::GenerationPolicy generation_policy(const ServeOptions& options,
                                        const scheduler::Environment& environment) {
  api::GenerationPolicy policy;
  policy.num_ctx =
      options.num_ctx_policy == "cap" ? api::NumCtxPolicy::kCap : api::NumCtxPolicy::kIgnore;
  policy.max_context = options.max_context;
  // CONTEXT_LENGTH has an effect only as a cap, because contexts grow by themselves.
  if (policy.max_context == 0 && policy.num_ctx == api::NumCtxPolicy::kCap)
    policy.max_context = environment.context_length;
  policy.sizes = options.sizes;
  policy.overflow_policy = options.overflow_policy;
  policy.reserve_batches = options.reserve_batches;
  policy.overflow_batch = options.overflow_batch;
  return policy;
}

// `fallback` runs the models that name no engine.
scheduler::DescribeModel describe_with(const std::vector<std::string>& arguments,
                                       scheduler::Engine fallback) {
  return [describe = scheduler::describe_with(kProgram, arguments), fallback](
             const std::string& path, scheduler::EngineChoice wanted, std::stop_token stop) {
    if (wanted.engine == scheduler::Engine::kAuto) wanted.engine = fallback;
    return describe(path, wanted, std::move(stop));
  };
}

// Sets where the server listens.
void set_address(const ServeOptions& options, const scheduler::Environment& environment,
                 server::Options& made) {
  made.socket_path = options.socket;
  if (options.host.starts_with(kUnix)) {
    if (!options.socket.empty())
      throw Error(ErrorCode::kInvalidInput, "--host unix:PATH and --socket name two Unix sockets");
    made.host.clear();
    made.port = 0;
    made.socket_path = options.host.substr(kUnix.size());
    made.socket_mode = 0660;  // a proxy of the same group may connect
    if (made.socket_path.empty())
      throw Error(ErrorCode::kInvalidInput, "--host unix:PATH needs the path of the socket");
    return;
  }
  const scheduler::Endpoint where = options.host.empty()
                                        ? environment.host
                                        : scheduler::parse_endpoint(options.host, "--host", refuse);
  made.host = where.host.empty() ? "::" : where.host;
  made.port = where.port;
}

std::string address_text(const server::Options& options, uint16_t port) {
  const std::string tcp = options.host.empty() ? "" : options.host + ":" + std::to_string(port);
  const char* between = options.socket_path.empty() || tcp.empty() ? "" : " and ";
  return options.socket_path + between + tcp;
}

server::Options server_options(const ServeOptions& options,
                               const scheduler::Environment& environment,
                               const std::vector<std::string>& arguments) {
  server::Options made;
  set_address(options, environment, made);
  made.origins = options.origins.empty() ? joined(environment.origins) : options.origins;
  made.api_keys = options.api_keys.empty() ? environment.api_keys : options.api_keys;
  made.max_connections = options.max_connections;
  made.max_body_bytes = parse_byte_size(options.max_body);
  if (!options.max_bodies.empty()) {
    made.max_bodies_bytes = parse_byte_size(options.max_bodies);
    if (made.max_bodies_bytes < made.max_body_bytes)
      throw Error(ErrorCode::kInvalidInput, "--max-bodies must be at least --max-body");
  }
  made.models = models_folder(options, environment);
  made.read_only = options.read_only;
  made.prune = !environment.no_prune;
  made.models_loaded = models_loaded(options, environment);
  std::vector<std::string> described = arguments;
  described.emplace_back("--parallel");
  described.push_back(std::to_string(made.models_loaded.n_parallel));
  made.describe =
      describe_with(described, scheduler::find_engine(options.engine).value_or(environment.engine));
  if (environment.go_template)
    made.go_templates =
        *environment.go_template ? prompt::GoTemplateUse::kAlways : prompt::GoTemplateUse::kNever;
  made.generation = generation_policy(options, environment);
  if (!options.read_only)
    made.slot_files = {.folder = made.models + "/sessions/slots",
                       .max_bytes = sessions_limit(options, environment) / kSlotsPart};
  made.picture_addresses.hosts = options.picture_hosts;
  made.preload = options.preload;
  made.registry = registry_options(options, environment);
  made.version = options.api_version;
  made.own_version = BILLOW_VERSION;
  made.program = kProgram;
  made.isa = kernels::select_table().name;
  made.node_name = options.node_name.empty() ? machine_name() : options.node_name;
  made.n_traces = options.n_traces;
  made.collector = collector_of(options, environment);
  made.web_page = options.web_page.empty() ? environment.web_page : options.web_page == "on";
  made.metrics_aliases = options.metrics_alias == "vllm";
  return made;
}

// Time that aborted requests have to end.
constexpr milliseconds kEndTime = std::chrono::seconds(10);

void run(const ServeOptions& options) {
  const scheduler::Environment environment = scheduler::read_environment(variable, warn);
  settle_heap(static_cast<size_t>(cpu::usable_cores()));
  log::for_a_server(environment.debug != scheduler::DebugLevel::kOff);
  if (!options.config.empty()) log::info("settings of " + options.config);
  const Signals signals;
  const engine::EmbedSettings embed = with_environment(options.embed, environment);
  engine::resolve_sizes(embed, 0);  // checks the sizes now instead of at each load
  const std::vector<std::string> arguments = runner_arguments(options, environment, embed);
  LastResort last_resort;  // watches the destructors of the objects below
  scheduler::RunnerProcesses processes({.program = kProgram, .arguments = arguments});
  server::Options made = server_options(options, environment, arguments);
  made.start_runner = processes.starter();
  server::Server server(made);
  log::info("models in " + made.models + ", memory for them " +
            format_byte_size(made.models_loaded.budget_bytes));
  if (!made.collector.url.empty()) log::info("traces go to " + made.collector.url);
  log::info("Listening on " + address_text(made, server.port()) + " (version " + made.own_version +
            ", kernels " + made.isa + ")");
  if (made.api_keys.empty() && server.is_on_network())
    log::warn("everyone who reaches " + made.host +
              " can use this server and change its models: --api-keys FILE asks for keys");
  if (server.has_web_page() && server.port() != 0) {
    const scheduler::Endpoint listening{.host = made.host, .port = server.port(), .path = "ui/"};
    log::info("the web page is at " + listening.for_clients().url());
  }
  while (!signals.wait_for(kTrimEvery)) trim_heap();
  log::info("shutting down: new requests are refused, running requests have " +
            std::to_string(static_cast<int>(options.drain_timeout)) +
            " s to finish; a second signal ends the server immediately");
  const milliseconds delay =
      options.drain_delay < 0 ? default_drain_delay() : of_seconds(options.drain_delay);
  last_resort.arm(delay + of_seconds(options.drain_timeout) + kEndTime);
  std::atomic<bool> drained{false};
  std::jthread second([&] {
    while (!drained)
      if (signals.wait_for(milliseconds(50))) {
        last_resort.arm(kEndTime);
        return server.stop();
      }
  });
  server.drain(delay, of_seconds(options.drain_timeout));
  drained = true;
  second.join();
  server.stop();
}

void declare_contexts(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--num-ctx-policy", options.num_ctx_policy,
                  "What a request's num_ctx does: nothing (ignore), or limit its context (cap)")
      ->check(CLI::IsMember({"ignore", "cap"}))
      ->capture_default_str();
  command.add_option("--max-context-size", options.max_context,
                     "Max tokens of a context; 0: the model's maximum");
  command
      .add_option("--context-sizes", options.sizes,
                  "Sizes that a context grows through, separated by commas")
      ->delimiter(',');
  command
      .add_option("--overflow-policy", options.overflow_policy,
                  "When a context is full: refill, shift or stop")
      ->check(CLI::IsMember({"refill", "shift", "stop"}))
      ->capture_default_str();
  command
      .add_option("--overflow-reserve-batches", options.reserve_batches,
                  "Batches of recent tokens that a compaction keeps")
      ->capture_default_str();
  command
      .add_option("--overflow-batch", options.overflow_batch,
                  "Tokens per batch of --overflow-reserve-batches")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void declare_models(CLI::App& command, ServeOptions& options) {
  command.add_option("--models", options.models, "Folder of the models (OLLAMA_MODELS)");
  command.add_option("--preload", options.preload,
                     "Load this model before the server is ready, and keep it loaded; repeatable");
  command.add_flag("--read-only", options.read_only,
                   "Refuse requests that would change stored models");
  command
      .add_option("--picture-hosts", options.picture_hosts,
                  "Hosts from which the server fetches pictures that requests name by URL, like "
                  "example.com, *.example.com or *; default: none. Never private addresses")
      ->delimiter(',');
  command
      .add_option("--parallel", options.n_parallel,
                  "Max requests that run on one model at the same time (OLLAMA_NUM_PARALLEL)")
      ->check(CLI::Range(size_t{1}, kMaxParallel));
  command.add_option(
      "--max-loaded-models", options.n_max_loaded,
      "Max models that are loaded at the same time (OLLAMA_MAX_LOADED_MODELS); 0: automatic");
  command.add_option(
      "--keep-alive", options.keep_alive,
      "How long an idle model stays loaded, like 5m; -1: forever (OLLAMA_KEEP_ALIVE)");
  command
      .add_option("--memory", options.memory,
                  "Max memory of all models together: bytes, or with K, M or G, or a share of what "
                  "the process may use")
      ->capture_default_str();
  command.add_option("--packed-limit", options.packed_limit,
                     "Max size of packed weights that are stored next to the models, so that "
                     "models load faster; 0: none; default: 16G (BILLOW_PACKED_LIMIT)");
  command.add_option("--sessions-limit", options.sessions_limit,
                     "Max size of conversations that are stored on disk, of all models together, "
                     "so that they continue after a restart without reading their texts again; 0: "
                     "none; default: 0 (BILLOW_SESSIONS_LIMIT)");
  command
      .add_option("--threads", options.n_threads,
                  "Threads per runner; 0: one for each physical core")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--stream-interval", options.stream_interval,
                  "Min milliseconds between two pieces of a streamed answer; faster tokens share a "
                  "piece; 0: one piece per token; default: 16 (BILLOW_STREAM_INTERVAL)")
      ->check(CLI::Range(uint64_t{0}, kMaxStreamInterval));
  command
      .add_option("--max-pass-time", options.max_pass_time,
                  "Max milliseconds of a pass while answers are written; prompts are then read in "
                  "chunks; 0: no limit; default: 100 (BILLOW_MAX_PASS_TIME)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{kLongestPassTime}));
  command
      .add_option("--draft-max", options.max_draft,
                  "Max tokens to guess per pass from earlier text; answers stay the same, but "
                  "repetitive answers come sooner; 0: do not guess; default: 32 (BILLOW_DRAFT_MAX)")
      ->check(CLI::Range(uint64_t{0}, uint64_t{kMaxDraft}));
  command
      .add_option(
          "--engine", options.engine,
          "Engine for models that name no engine: auto (Billow's own engine, or llama-server for "
          "models that Billow does not support), billow or llama (BILLOW_ENGINE)")
      ->check(CLI::IsMember({"auto", "billow", "llama"}));
  command.add_option(
      "--llama-server", options.llama_server,
      "Path of llama.cpp's llama-server; default: search PATH (BILLOW_LLAMA_SERVER)");
  CLI::Option* const kv_type = add_kv_type(command, options.kv_type);
  kv_type->description(kv_type->get_description() + " (OLLAMA_KV_CACHE_TYPE)");
}

void declare_network(CLI::App& command, ServeOptions& options) {
  command.add_option("--config", options.config,
                     "TOML file with these options; ~/.config/billow/billow.toml or "
                     "/etc/billow/billow.toml if not given (BILLOW_CONFIG)");
  command.add_option("--host", options.host,
                     "Address to listen on, HOST[:PORT] (OLLAMA_HOST), or unix:PATH");
  command.add_option("--socket", options.socket, "A Unix socket to listen on, too");
  command.add_option(
      "--origins", options.origins,
      "Origins of web pages that may send requests, separated by commas (OLLAMA_ORIGINS)");
  command.add_option("--api-keys", options.api_keys,
                     "File of API keys, made by 'billow keys'; requests then need a key; default: "
                     "none (BILLOW_API_KEYS)");
  command
      .add_option("--max-queue", options.n_max_queue,
                  "Max waiting requests; more are refused (OLLAMA_MAX_QUEUE)")
      ->check(CLI::PositiveNumber);
  command.add_option("--max-connections", options.max_connections, "Max open connections")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--max-body", options.max_body, "Max size of a request's body")
      ->capture_default_str();
  command.add_option(
      "--max-bodies", options.max_bodies,
      "Max size of all bodies together while they are read; default: twice --max-body");
}

void declare_operation(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--drain-delay", options.drain_delay,
                  "Seconds that the server continues to serve after SIGTERM while it reports that "
                  "it is not ready (default: 5 under systemd and Kubernetes, else 0)")
      ->check(CLI::Range(0.0, 86400.0));
  command
      .add_option("--drain-timeout", options.drain_timeout,
                  "Seconds that running requests have to finish at shutdown")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_option("--registry-mirror", options.registry_mirror,
                     "Address to use in place of the default registry, http://HOST:PORT or "
                     "https://HOST (BILLOW_REGISTRY_MIRROR)");
  command.add_option("--otlp", options.otlp,
                     "Address of an OpenTelemetry collector that gets traces of requests, like "
                     "http://127.0.0.1:4318; default: none (BILLOW_OTLP)");
  command.add_option("--node-name", options.node_name,
                     "Name of this host in X-Billow-Node and traces; default: the machine's name");
  command
      .add_option("--metrics-alias", options.metrics_alias,
                  "Also report metrics under the names of this other server")
      ->check(CLI::IsMember({"vllm"}));
  command
      .add_option("--web-page", options.web_page,
                  "The web page at /ui/: on or off; default: on (BILLOW_WEB_PAGE)")
      ->check(CLI::IsMember({"on", "off"}));
  command.add_option("--traces", options.n_traces, "Number of request traces to keep")
      ->capture_default_str();
  command
      .add_option("--api-version", options.api_version,
                  "Version of Ollama that /api/version reports; clients compare it")
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve",
                                         "Start the server. Environment variables are in "
                                         "parentheses; BILLOW_NAME overrides OLLAMA_NAME");
  command->alias("start");
  auto options = std::make_shared<ServeOptions>();
  declare_network(*command, *options);
  declare_models(*command, *options);
  declare_contexts(*command, *options);
  declare_embed_sizes(*command, options->embed);
  declare_embed_faults(*command, options->embed_faults);
  declare_operation(*command, *options);
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

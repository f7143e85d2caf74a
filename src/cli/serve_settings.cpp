#include "cli/serve_settings.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/embed_sizes.h"
#include "cli/option_variables.h"
#include "cli/variable.h"
#include "cli/version.h"
#include "cpu/memory.h"
#include "http/access.h"
#include "kernels/kernel_table.h"
#include "keys/keys_file.h"
#include "scheduler/runner_process.h"
#include "server/trace_exporter.h"

namespace billow::cli {
namespace {

constexpr size_t kMaxTransferStreams = 64;

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
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
  if (const auto n = environment.n_transfer_streams; n && *n > 0)
    made.download.n_at_once = std::min<size_t>(*n, kMaxTransferStreams);
  return made;
}

server::CollectorOptions collector_of(const ServeOptions& options,
                                      const scheduler::Environment& environment) {
  server::CollectorOptions made;
  made.url = options.otlp.empty() ? environment.otlp : options.otlp;
  if (made.url.empty()) return made;
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

// Parses a size. The first text that is not empty counts.
uint64_t size_of(const std::string& given, const std::string& variable, const char* fallback) {
  return parse_byte_size(!given.empty() ? given : !variable.empty() ? variable : fallback);
}

uint64_t sessions_limit(const ServeOptions& options, const scheduler::Environment& environment) {
  return size_of(options.sessions_limit, environment.sessions_limit, "0");
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
    arguments.push_back(std::to_string(*interval));
  }
  if (const auto max_time =
          options.max_pass_time ? options.max_pass_time : environment.max_pass_time) {
    arguments.emplace_back("--max-pass-time");
    arguments.push_back(std::to_string(*max_time));
  }
  if (const auto max_draft = options.max_draft ? options.max_draft : environment.max_draft) {
    arguments.emplace_back("--draft-max");
    arguments.push_back(std::to_string(*max_draft));
  }
  const std::string& llama_server =
      options.llama_server.empty() ? environment.llama_server : options.llama_server;
  if (!llama_server.empty()) arguments.insert(arguments.end(), {"--llama-server", llama_server});
  if (options.n_threads > 0) {
    arguments.emplace_back("--threads");
    arguments.push_back(std::to_string(options.n_threads));
  }
  const uint64_t packed =
      size_of(options.packed_limit, environment.packed_limit, kDefaultPackedLimit);
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

scheduler::Options models_loaded(const ServeOptions& options,
                                 const scheduler::Environment& environment) {
  const uint64_t budget = parse_byte_size(options.memory, cpu::usable_memory());
  scheduler::Options loaded = planner_options(environment, budget);
  if (options.n_parallel) loaded.n_parallel = *options.n_parallel;
  if (options.n_max_loaded) loaded.n_max_loaded = *options.n_max_loaded;
  if (options.n_max_queue) loaded.n_max_queue = *options.n_max_queue;
  if (!options.keep_alive.empty()) loaded.keep_alive = keep_alive_of(options.keep_alive);
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
    return;
  }
  const scheduler::Endpoint where =
      options.host.empty()
          ? environment.host
          : scheduler::parse_endpoint(options.host, "--host", [](const std::string&) {});
  made.host = where.host.empty() ? "::" : where.host;
  made.port = where.port;
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

// Runs `check`. If the option was not given, an error names the variable.
template <typename Check>
void check_setting(const std::string& option, std::string_view name, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    const std::string variable = option.empty() ? deciding_variable(name) : "";
    throw Error(error.code(), variable + (variable.empty() ? "" : ": ") + error.what());
  }
}

// Checks the settings that decide who may use the server. A wrong one is never ignored.
void check_access(const ServeOptions& options, const server::Options& made) {
  check_setting(options.origins, "ORIGINS", [&] { (void)http::AllowedOrigins(made.origins); });
  if (made.api_keys.empty()) return;
  check_setting(options.api_keys, "API_KEYS", [&] {
    (void)keys::parse_keys(keys::read_keys_file(made.api_keys), made.api_keys);
  });
}

}  // namespace

scheduler::Environment serve_environment(const ServeOptions& options, const scheduler::Warn& warn) {
  return scheduler::read_environment(checked_variables(*options.command, warn), warn);
}

ServeSettings serve_settings(const ServeOptions& options, const scheduler::Environment& environment,
                             const scheduler::Warn& warn) {
  const engine::EmbedSettings embed = with_environment(options.embed, environment, warn);
  engine::resolve_sizes(embed, 0);  // checks the sizes now instead of at each load
  ServeSettings settings;
  settings.arguments = runner_arguments(options, environment, embed);
  settings.server = server_options(options, environment, settings.arguments);
  check_access(options, settings.server);
  return settings;
}

}  // namespace billow::cli

#include "cli/serve_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/error.h"
#include "cli/embed_sizes.h"
#include "cli/option_checks.h"
#include "http/access.h"
#include "registry/origin.h"
#include "scheduler/environment.h"
#include "scheduler/keep_alive.h"
#include "server/trace_exporter.h"

namespace billow::cli {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::kInvalidInput, what); }

void check_host(const std::string& text) {
  if (text == kUnix) refuse("unix:PATH needs the path of the socket");
  if (text.starts_with(kUnix)) return;
  // The text begins with ": ", after an empty name. What follows the semicolon is the default.
  (void)scheduler::parse_endpoint(
      text, "", [](const std::string& why) { refuse(why.substr(2, why.find(';') - 2)); });
}

void check_mirror(const std::string& text) {
  if (!registry::origin_of(text.substr(0, text.find_last_not_of('/') + 1)))
    refuse("'" + text + "' is not an address; write http://HOST:PORT or https://HOST");
}

void check_collector(const std::string& text) {
  try {
    (void)server::traces_url(text);
  } catch (const Error&) {  // its text names the option
    refuse("'" + text + "' is not the address of a collector, like http://127.0.0.1:4318");
  }
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
      ->delimiter(',')
      ->check(whole_number(1));
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
      ->check(whole_number(1))
      ->capture_default_str();
}

void declare_models(CLI::App& command, ServeOptions& options) {
  command.add_option("--models", options.models, "Folder of the models (OLLAMA_MODELS)");
  command.add_option("--preload", options.preload,
                     "Load this model before the server is ready; repeatable");
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
  command
      .add_option("--keep-alive", options.keep_alive,
                  "How long an idle model stays loaded, like 5m; -1: forever (OLLAMA_KEEP_ALIVE)")
      ->check(accepted_by([](const std::string& text) { (void)keep_alive_of(text); }));
  command
      .add_option("--memory", options.memory,
                  "Max memory of all models together: bytes, or with K, M or G, or a share of what "
                  "the process may use")
      ->check(memory_size())
      ->capture_default_str();
  command
      .add_option("--packed-limit", options.packed_limit,
                  "Max size of packed weights that are stored next to the models, so that "
                  "models load faster; 0: none; default: 16G (BILLOW_PACKED_LIMIT)")
      ->check(byte_size());
  command
      .add_option("--sessions-limit", options.sessions_limit,
                  "Max size of conversations that are stored on disk, of all models together, "
                  "so that they continue after a restart without reading their texts again; 0: "
                  "none; default: 0 (BILLOW_SESSIONS_LIMIT)")
      ->check(byte_size());
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
  command
      .add_option("--host", options.host,
                  "Address to listen on, HOST[:PORT] (OLLAMA_HOST), or unix:PATH")
      ->check(accepted_by(check_host));
  command.add_option("--socket", options.socket, "A Unix socket to listen on, too");
  command
      .add_option("--origins", options.origins,
                  "Origins of web pages that may send requests, separated by commas "
                  "(OLLAMA_ORIGINS)")
      ->check(accepted_by([](const std::string& text) { (void)http::AllowedOrigins(text); }));
  command.add_option("--api-keys", options.api_keys,
                     "File of API keys, made by 'billow keys'; requests then need a key; default: "
                     "none (BILLOW_API_KEYS)");
  command
      .add_option("--max-queue", options.n_max_queue,
                  "Max waiting requests; more are refused (OLLAMA_MAX_QUEUE)")
      ->check(whole_number(1));
  command.add_option("--max-connections", options.max_connections, "Max open connections")
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_option("--max-body", options.max_body, "Max size of a request's body")
      ->check(byte_size())
      ->capture_default_str();
  command
      .add_option("--max-bodies", options.max_bodies,
                  "Max size of all bodies together while they are read; default: twice --max-body")
      ->check(byte_size());
}

void declare_operation(CLI::App& command, ServeOptions& options) {
  command
      .add_option("--drain-delay", options.drain_delay,
                  "Seconds that the server continues to serve after SIGTERM while it reports that "
                  "it is not ready (default: 5 under systemd and Kubernetes, else 0)")
      ->check(number(0.0, 86400.0));
  command
      .add_option("--drain-timeout", options.drain_timeout,
                  "Seconds that running requests have to finish at shutdown")
      ->check(number(0.0, 86400.0))
      ->capture_default_str();
  command
      .add_option("--registry-mirror", options.registry_mirror,
                  "Address to use in place of the default registry, http://HOST:PORT or "
                  "https://HOST (BILLOW_REGISTRY_MIRROR)")
      ->check(accepted_by(check_mirror));
  command
      .add_option("--otlp", options.otlp,
                  "Address of an OpenTelemetry collector that gets traces of requests, like "
                  "http://127.0.0.1:4318; default: none (BILLOW_OTLP)")
      ->check(accepted_by(check_collector));
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

scheduler::Duration keep_alive_of(const std::string& text) {
  int64_t seconds = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (failed == std::errc() && end == text.data() + text.size())
    return scheduler::keep_alive_from_seconds(static_cast<double>(seconds));
  return scheduler::keep_alive_from_text(text);
}

std::shared_ptr<ServeOptions> declare_serve(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve",
                                         "Start the server. Environment variables are in "
                                         "parentheses; BILLOW_NAME overrides OLLAMA_NAME");
  command->alias("start");
  auto options = std::make_shared<ServeOptions>();
  options->command = command;
  declare_network(*command, *options);
  declare_models(*command, *options);
  declare_contexts(*command, *options);
  declare_embed_sizes(*command, options->embed);
  declare_embed_faults(*command, options->embed_faults);
  declare_operation(*command, *options);
  return options;
}

}  // namespace billow::cli

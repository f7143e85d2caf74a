// billow runner: serves one model over HTTP on a Unix socket. The server starts a runner for each
// model. You can also start a runner by hand and send requests with curl.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/json.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/embed_sizes.h"
#include "cli/engine_options.h"
#include "cli/parent.h"
#include "cli/program.h"
#include "cli/variable.h"
#include "context/picture_rule.h"
#include "cpu/cores.h"
#include "engine/describe.h"
#include "gguf/file.h"
#include "http/server.h"
#include "llama/facts.h"
#include "llama/find.h"
#include "llama/projector.h"
#include "llama/served_model.h"
#include "runner/service.h"
#include "scheduler/engine_choice.h"
#include "scheduler/runner.h"

namespace billow::cli {
namespace {

struct RunnerOptions {
  ModelOptions model;
  std::string described;  // the file to describe, instead of serving a model
  std::string socket;
  size_t max_sequences = 8;
  engine::EmbedSettings embed;
  engine::EmbedFaults embed_faults;
  std::string max_cached = "1G";
  std::string sessions_dir;  // empty: conversations are not stored on disk
  std::string sessions_limit = "2G";
  int stream_interval = 16;                                                   // milliseconds
  int max_pass_time = static_cast<int>(engine::kDefaultMaxPassTime.count());  // milliseconds
  int drain_seconds = 30;
  bool with_parent = false;
  bool asks_for_memory = false;
  std::string engine = "auto";
  std::string llama_server;  // empty: the one on PATH
  std::optional<int> n_gpu_layers;
  std::string projector;   // GGUF file of the projector for pictures; empty: none
  int llama_timeout = 30;  // seconds
};

constexpr int kBroken = SIGUSR1;  // sent to this process by its engine's thread
constexpr int kBrokenStatus = 3;

// Only this user's server sends requests, and it has accepted them already. Its own limits hold for
// the bodies of clients; bodies for the runner can be larger, as they contain decoded pictures.
constexpr uint64_t kMaxBodyBytes = uint64_t{1} << 40;
constexpr size_t kMaxConnections = 65'536;

// Blocks the signals in this thread and in the threads that it starts, so that run() can wait for
// the signals.
sigset_t block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, kBroken);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Returns the sizes from the options or, if an option is missing, from the environment. The other
// sizes stay unset.
engine::EmbedSettings embed_settings(const RunnerOptions& options) {
  const auto lookup = [](const std::string& name) -> std::optional<std::string> {
    const bool is_size = name.starts_with("BILLOW_N_") || name == "BILLOW_CONTEXT_SIZE" ||
                         name == "BILLOW_MAX_BATCHES";
    return is_size ? variable(name) : std::nullopt;  // other variables are for the server
  };
  const auto warn = [](const std::string& text) { log::warn(text); };
  return with_environment(options.embed, scheduler::read_environment(lookup, warn));
}

// Lowers the maximum context of an embedding model to the max length of its texts.
void limit_texts(Json& description, const engine::EmbedSettings& settings) {
  if (!description["is_embedding"].get<bool>()) return;
  const auto max = description["max_context"].get<size_t>();
  description["max_context"] = engine::text_limit(engine::resolve_sizes(settings, max), max);
}

llama::FactsOptions llama_facts(const RunnerOptions& options) {
  uint64_t adapter_bytes = 0;
  for (const engine::AdapterFile& adapter : options.model.adapter_files()) {
    if (adapter.scale != 1.0f)
      throw Error(ErrorCode::kUnsupported,
                  adapter.path +
                      ": llama-server takes no scale for an adapter, except the scale in its file");
    adapter_bytes += RegularFile(adapter.path).size_bytes();
  }
  return {.n_parallel = options.max_sequences,
          .max_context = options.model.max_context,
          .adapter_bytes = adapter_bytes,
          .kv_type = kv_type_of(options.model.kv_type)};
}

// Whether the projector is a part of the model's file. Only Billow's own engine reads such a one.
bool has_embedded_projector(const RunnerOptions& options) {
  const std::string& model = options.described.empty() ? options.model.model : options.described;
  return !options.projector.empty() && options.projector == model;
}

// Returns the path of the projector for llama-server; empty: none.
std::string llama_projector_path(const RunnerOptions& options) {
  return has_embedded_projector(options) ? std::string() : options.projector;
}

std::optional<llama::Projector> llama_projector(const RunnerOptions& options) {
  const std::string path = llama_projector_path(options);
  if (path.empty()) return std::nullopt;
  return llama::projector_of(gguf::File::open(path, gguf::StringArrays::kSkipped));
}

Json pictures_json(const context::PictureRule& rule) {
  constexpr const char* kKinds[] = {"square", "scaled", "tiled"};
  return {{"kind", kKinds[static_cast<size_t>(rule.kind)]},
          {"cell", rule.cell},
          {"edge", rule.edge},
          {"min_rows", rule.min_rows},
          {"max_rows", rule.max_rows},
          {"max_tiles", rule.max_tiles}};
}

std::vector<std::string> adapter_paths(const RunnerOptions& options) {
  std::vector<std::string> paths;
  for (const engine::AdapterFile& adapter : options.model.adapter_files())
    paths.push_back(adapter.path);
  return paths;
}

// Describes a file that llama-server will run.
Json llama_description(const RunnerOptions& options) {
  if (!llama::find_server(options.llama_server))
    throw Error(ErrorCode::kNotFound,
                "there is no llama-server: install llama.cpp, or give --llama-server");
  const gguf::File file = gguf::File::open(options.described, gguf::StringArrays::kSkipped);
  const std::optional<llama::Projector> projector = llama_projector(options);
  const llama::Facts facts =
      llama::facts_of(file, llama_facts(options), projector ? &*projector : nullptr);
  Json out = {{"architecture", facts.architecture},
              {"max_context", facts.max_context},
              {"memory", engine::memory_need_json(facts.memory)},
              {"embedding_length", facts.embedding_length},
              {"is_embedding", !facts.pooling.empty()},
              {"engine", "llama"}};
  if (!facts.pooling.empty()) out["pooling"] = facts.pooling;
  if (projector && projector->pictures) out["pictures"] = pictures_json(*projector->pictures);
  return out;
}

// `projector`: empty: the model sees no pictures.
Json own_description(const RunnerOptions& options, const std::string& projector) {
  const engine::EmbedSettings sizes = embed_settings(options);
  const gguf::File file =
      gguf::File::open(options.described, options.model.draft.empty() ? gguf::StringArrays::kSkipped
                                                                      : gguf::StringArrays::kRead);
  Json out =
      engine::description_json(engine::describe(file, {.n_parallel = options.max_sequences,
                                                       .n_threads = options.model.n_threads,
                                                       .max_draft = options.model.max_draft,
                                                       .max_context = options.model.max_context,
                                                       .kv_type = kv_type_of(options.model.kv_type),
                                                       .embed = sizes,
                                                       .adapters = options.model.adapter_files(),
                                                       .draft_model = options.model.draft,
                                                       .projector = projector}));
  limit_texts(out, sizes);
  return out;
}

// Describes the file. Engine `auto` chooses llama-server, if it is installed, for a model or a
// projector that Billow does not support. Otherwise a model with such a projector sees no pictures.
Json description_of(const RunnerOptions& options) {
  const bool has_server = llama::find_server(options.llama_server).has_value();
  if (options.engine == "llama") return llama_description(options);
  if (!options.projector.empty()) {
    try {
      return own_description(options, options.projector);
    } catch (const Error& error) {
      // A model runs without the projector in its file, whatever the projector lacks.
      const bool is_embedded = has_embedded_projector(options);
      const bool needs_it = !is_embedded && error.code() != ErrorCode::kUnsupported;
      if (needs_it || error.code() == ErrorCode::kOutOfMemory) throw;
      if (options.engine == "auto" && has_server && !is_embedded) return llama_description(options);
      log::warn("the model sees no pictures: " + std::string(error.what()));
    }
  }
  try {
    return own_description(options, "");
  } catch (const Error& error) {
    if (options.engine == "billow" || error.code() != ErrorCode::kUnsupported) throw;
    if (has_server) return llama_description(options);
    throw Error(error.code(),
                std::string(error.what()) +
                    "; if llama-server of llama.cpp were on PATH, it would try to run the model");
  }
}

// Prints one line of JSON: a description or an error.
void describe(const RunnerOptions& options) {
  Json out;
  try {
    out = description_of(options);
  } catch (const Error& error) {
    out = {{"error", utf8::sanitized(error.what())}, {"code", error_code_name(error.code())}};
  }
  const std::string line = out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  if (out.contains("error")) throw CLI::RuntimeError(1);
}

// Ends the process after the engine has failed. Requests in flight are lost and get an error, for
// which they have a few seconds. The server starts a new process.
[[noreturn]] void end_broken(http::Server& server, const std::string& failure) {
  server.drain(std::chrono::seconds(5));
  std::fprintf(stderr, "billow: error: %s\n", failure.c_str());
  std::fflush(stderr);
  std::_Exit(kBrokenStatus);
}

void report_break() { ::kill(::getpid(), kBroken); }

runner::LoadModel own_model(const RunnerOptions& options, const engine::EngineOptions& engine) {
  return runner::own_model(
      options.model.model, engine,
      {.stream_interval = std::chrono::milliseconds(options.stream_interval),
       .on_broken = report_break},
      {.faults = options.embed_faults, .batcher = {.sizes = embed_settings(options)}});
}

runner::LoadModel llama_model(const RunnerOptions& options, uint64_t budget_bytes) {
  return [options, budget_bytes](const runner::OnLoad& on_load) {
    const std::optional<std::string> program = llama::find_server(options.llama_server);
    if (!program) throw Error(ErrorCode::kNotFound, "there is no llama-server");
    std::vector<std::string> launcher = {"/proc/self/exe", "with-parent", "--without", "LLAMA_"};
    const std::string marker = llama::new_media_marker();
    for (const std::string& variable : llama::environment_of_server(marker))
      launcher.insert(launcher.end(), {"--set", variable});
    launcher.emplace_back("--");
    auto n_lines = std::make_shared<std::atomic<size_t>>(0);
    llama::ServedOptions served;
    served.facts = llama_facts(options);
    served.projector = llama_projector(options);
    served.budget_bytes = budget_bytes;
    served.host = {.launcher = std::move(launcher),
                   .command = {.program = *program,
                               .model = options.model.model,
                               .projector = llama_projector_path(options),
                               .adapters = adapter_paths(options),
                               .socket = options.socket + ".llama.sock",
                               .n_threads = options.model.n_threads,
                               .n_gpu_layers = options.n_gpu_layers},
                   .asks_for_memory = options.asks_for_memory,
                   .timeout = std::chrono::seconds(options.llama_timeout),
                   .on_line = [on_load, n_lines] { on_load(++*n_lines, 0); },
                   .on_broken = report_break};
    return std::make_unique<llama::ServedLlama>(served);
  };
}

// Serves until SIGINT or SIGTERM comes or the engine fails. Throws Error (kOutOfMemory) or
// std::bad_alloc only if the load runs out of memory.
void run(const RunnerOptions& options) {
  if (options.with_parent) {
    end_with_parent();
    log::show_info();
  }
  settle_heap(static_cast<size_t>(cpu::usable_cores()));
  const sigset_t signals = block_signals();
  engine::EngineOptions engine = options.model.engine();
  engine.max_sequences = options.max_sequences;
  engine.asks_for_memory = options.asks_for_memory;
  engine.defers_trim = true;
  engine.projector = options.projector;
  engine.max_pass_time = std::chrono::milliseconds(options.max_pass_time);
  engine.max_cached = parse_byte_size(options.max_cached);
  engine.sessions = {options.sessions_dir, parse_byte_size(options.sessions_limit)};
  runner::Service service(options.engine == "llama" ? llama_model(options, engine.memory_budget)
                                                    : own_model(options, engine));
  http::ServerOptions listen;
  listen.socket_path = options.socket;
  listen.max_body_bytes = kMaxBodyBytes;
  listen.max_connections = kMaxConnections;
  listen.shape_error = runner::Service::error_response;
  http::Server server(listen, service.routes());
  service.wait_until_loaded();
  log::debug("ready on " + options.socket);
  constexpr timespec kTrimEvery = {.tv_sec = 60, .tv_nsec = 0};
  for (int signal = kBroken; signal == kBroken || signal < 0;) {
    signal = ::sigtimedwait(&signals, nullptr, &kTrimEvery);
    if (signal < 0) trim_heap();  // timeout
    const std::string failure = service.failure();
    if (!failure.empty()) end_broken(server, failure);
  }
  // A second signal ends the process immediately.
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  server.drain(std::chrono::seconds(options.drain_seconds));
}

// Ends the process with a status that shows the server whether memory was missing.
void run_or_exit(const RunnerOptions& options) {
  std::string error;
  try {
    return run(options);
  } catch (const Error& known) {
    if (known.code() != ErrorCode::kOutOfMemory) throw;
    error = known.what();
  } catch (const std::bad_alloc&) {
    error = "out of memory";
  }
  report_error(error);
  throw CLI::RuntimeError(scheduler::kOutOfMemoryStatus);
}

}  // namespace

void add_runner(CLI::App& app) {
  CLI::App* command = app.add_subcommand("runner", "Serve one model on a Unix socket");
  auto options = std::make_shared<RunnerOptions>();
  options->model.declare(*command);
  options->model.declare_draft(*command);
  auto* socket = command->add_option("--socket", options->socket, "Path of the Unix socket");
  CLI::Option* model = command->get_option("--model");
  model->required(false);  // --describe can replace it
  command->add_option(
      "--describe", options->described,
      "Print a description of this GGUF file and its memory needs as JSON, then exit");
  declare_embed_sizes(*command, options->embed);
  declare_embed_faults(*command, options->embed_faults);
  command
      ->add_option("--parallel", options->max_sequences,
                   "Max answers that are written at the same time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option(
          "--keep-kv", options->max_cached,
          "Max KV memory of finished answers to keep cached, for prompts with the same prefix")
      ->capture_default_str();
  command->add_option(
      "--sessions-dir", options->sessions_dir,
      "Store the KV of finished answers in this folder, so that conversations continue after a "
      "restart without reading their texts again; default: do not store it");
  command
      ->add_option("--sessions-limit", options->sessions_limit,
                   "Max size of the folder; it may have the KV of other models, too")
      ->capture_default_str();
  command
      ->add_option("--stream-interval", options->stream_interval,
                   "Min milliseconds between two pieces of a streamed answer; faster tokens share "
                   "a piece. 0: one piece per token")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  command
      ->add_option("--max-pass-time", options->max_pass_time,
                   "Max milliseconds of a pass while answers are written; prompts are then read in "
                   "chunks. 0: no limit")
      ->check(CLI::Range(0, static_cast<int>(kLongestPassTime)))
      ->capture_default_str();
  command
      ->add_option("--drain-timeout", options->drain_seconds,
                   "Seconds that running answers have to finish at shutdown")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command->add_flag(
      "--ask-for-memory", options->asks_for_memory,
      "If memory is missing, wait for POST /budget before a sequence is compacted or ended");
  command->add_flag("--with-parent", options->with_parent, "End when the parent process ends");
  command
      ->add_option("--engine", options->engine,
                   "Engine for the model: billow, llama (llama-server of llama.cpp) or, with "
                   "--describe, auto (llama if Billow does not support the model)")
      ->check(CLI::IsMember({"auto", "billow", "llama"}))
      ->capture_default_str();
  command->add_option("--llama-server", options->llama_server,
                      "Path of llama.cpp's llama-server; default: search PATH");
  command
      ->add_option("--llama-timeout", options->llama_timeout,
                   "Timeout in seconds: a llama-server that does not answer for this long is ended")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->add_option(
      "--projector", options->projector,
      "GGUF file of the projector with which the model sees pictures; the model's own "
      "file if the projector is in it");
  command->add_option("--gpu-layers", options->n_gpu_layers,
                      "Layers that llama-server puts on a GPU; -1: all that fit");
  command->callback([options, model, socket] {
    if (!options->described.empty()) return describe(*options);
    for (const CLI::Option* needed : {model, socket})
      if (needed->empty()) throw CLI::RequiredError(needed->get_name());
    run_or_exit(*options);
  });
}

}  // namespace billow::cli

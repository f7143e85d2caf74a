// billow runner: one model behind HTTP on a Unix socket. What the server starts for each model; by
// hand it serves for a look with curl.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "http/server.h"
#include "runner/service.h"

namespace billow::cli {
namespace {

struct RunnerOptions {
  ModelOptions model;
  std::string socket;
  size_t max_sequences = 8;
  std::string max_parked = "1G";
  int drain_seconds = 30;
  bool with_parent = false;
};

// Ends this process when the one that started it has ended, however that happened.
void end_with_parent() {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent == 1 || ::getppid() != parent)
    throw Error(ErrorCode::kInvalidInput, "--with-parent: the parent has ended already");
}

// Blocks SIGINT and SIGTERM in this thread and those that it starts, so that it can wait for them.
sigset_t block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

void run(const RunnerOptions& options) {
  if (options.with_parent) end_with_parent();
  const sigset_t signals = block_signals();
  engine::EngineOptions engine = options.model.engine();
  engine.max_sequences = options.max_sequences;
  engine.max_parked = parse_byte_size(options.max_parked);
  runner::Service service(options.model.model, engine);
  http::ServerOptions listen;
  listen.socket_path = options.socket;
  listen.shape_error = runner::Service::error_response;
  http::Server server(listen, service.routes());
  service.wait_until_loaded();
  log::info("ready on " + options.socket);
  int signal = 0;
  ::sigwait(&signals, &signal);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second one ends it at once
  server.drain(std::chrono::seconds(options.drain_seconds));
}

}  // namespace

void add_runner(CLI::App& app) {
  CLI::App* command = app.add_subcommand("runner", "Serve one model on a Unix socket");
  auto options = std::make_shared<RunnerOptions>();
  options->model.declare(*command);
  command->add_option("--socket", options->socket, "Path of the Unix socket")->required();
  command->add_option("--parallel", options->max_sequences, "Answers that are written at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--keep-kv", options->max_parked,
                   "Most KV memory of finished answers to keep for prompts that begin alike")
      ->capture_default_str();
  command
      ->add_option("--drain-timeout", options->drain_seconds,
                   "Seconds that answers have to finish when it is told to end")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command->add_flag("--with-parent", options->with_parent, "End when the parent process ends");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

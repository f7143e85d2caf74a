// billow serve: starts the server. Its settings come from the environment, as Ollama's do, and from
// options. Options override the environment.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_size.h"
#include "base/heap.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/serve_settings.h"
#include "cli/shutdown.h"
#include "cli/variable.h"
#include "cpu/cores.h"
#include "scheduler/environment.h"
#include "scheduler/runner_process.h"
#include "server/open_files.h"
#include "server/server.h"

namespace billow::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTrimEvery = std::chrono::minutes(1);

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

std::string address_text(const server::Options& options, uint16_t port) {
  const std::string tcp = options.host.empty() ? "" : options.host + ":" + std::to_string(port);
  const char* between = options.socket_path.empty() || tcp.empty() ? "" : " and ";
  return options.socket_path + between + tcp;
}

// Time that aborted requests have to end.
constexpr milliseconds kEndTime = std::chrono::seconds(10);

void run(const ServeOptions& options) {
  std::vector<std::string> warnings;
  const scheduler::Environment environment =
      serve_environment(options, [&](const std::string& text) { warnings.push_back(text); });
  settle_heap(static_cast<size_t>(cpu::usable_cores()));
  log::for_a_server(environment.debug != scheduler::DebugLevel::kOff);
  for (const std::string& text : warnings) log::warn(text);
  if (!options.config.empty()) log::info("settings of " + options.config);
  server::raise_open_file_limit();
  const Signals signals;
  const ServeSettings settings =
      serve_settings(options, environment, [](const std::string& text) { log::warn(text); });
  LastResort last_resort;  // watches the destructors of the objects below
  scheduler::RunnerProcesses processes({.program = kProgram, .arguments = settings.arguments});
  server::Options made = settings.server;
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

}  // namespace

void add_serve(CLI::App& app) {
  const std::shared_ptr<ServeOptions> options = declare_serve(app);
  app.get_subcommand("serve")->callback([options] { run(*options); });
}

}  // namespace billow::cli

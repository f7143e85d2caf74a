// billow trace [ID]: shows what a server did for a request, as a chart over time or as JSON.
// Without an id, lists the latest requests.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "cli/api_key.h"
#include "cli/client/api_client.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/option_checks.h"
#include "cli/terminal_line.h"
#include "cli/variable.h"
#include "http/client.h"
#include "metrics/request_id.h"
#include "metrics/waterfall.h"
#include "scheduler/environment.h"

namespace billow::cli {
namespace {

struct Options {
  std::string id;
  std::string host;
  bool json = false;
  bool chrome = false;
};

scheduler::Endpoint endpoint_of(const Options& options) {
  const auto warn = [](const std::string& text) { log::warn(text); };
  const scheduler::Endpoint endpoint =
      options.host.empty() ? scheduler::read_environment(variable, warn).host
                           : scheduler::parse_endpoint(options.host, "--host", warn);
  if (endpoint.scheme != "http") {
    throw Error(ErrorCode::kUnsupported,
                "'" + endpoint.url() + "' needs TLS, which is not supported");
  }
  return endpoint.for_clients();
}

// Sends the request and returns the body of the response.
std::string fetch(const Options& options) {
  const scheduler::Endpoint endpoint = endpoint_of(options);
  http::Client client({.host = endpoint.host, .port = endpoint.port}, {.headers = key_headers()});
  std::string target = (endpoint.path.empty() ? "" : "/" + endpoint.path) + "/api/trace";
  if (!options.id.empty()) target += "/" + options.id;  // an id has no byte that needs an escape
  if (options.chrome) target += "?format=chrome";
  http::Call call;
  call.target = target;
  http::Response response = client.send(call);
  if (response.status == 404 && !options.id.empty()) {
    throw Error(ErrorCode::kNotFound, "the server at " + endpoint.url() +
                                          " has no trace of a request '" + options.id + "'");
  }
  if (response.status != 200) {
    const std::string said = said_by(response.body);
    throw Error(ErrorCode::kIo, "the server at " + endpoint.url() + " answered " +
                                    std::to_string(response.status) + " to " + target +
                                    (said.empty() ? "" : ": " + said));
  }
  return std::move(response.body);
}

// Returns the colour and width of standard output if it is a terminal.
metrics::WaterfallOptions terminal() {
  metrics::WaterfallOptions options;
  if (::isatty(STDOUT_FILENO) == 0) return options;
  options.colour = shows_colours(STDOUT_FILENO);
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.n_columns = size.ws_col;
  }
  return options;
}

void run(const Options& options) {
  if (!options.id.empty() && !metrics::is_request_id(options.id)) {
    refuse_usage("a request id has at most 128 characters: letters, digits, '.', '_' and '-'");
  }
  if (options.id.empty() && options.chrome) refuse_usage("--chrome needs the id of a request");
  const std::string body = fetch(options);
  if (options.json || options.chrome) {
    print_now(body.ends_with('\n') ? body : body + "\n");
  } else {
    print_now(options.id.empty() ? metrics::trace_table(body)
                                 : metrics::waterfall(body, terminal()));
  }
}

}  // namespace

void add_trace(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("trace", "Show what a server did for a request, and when");
  command->add_option("id", options->id,
                      "The X-Request-Id of the response; default: list the latest requests");
  auto* json = command->add_flag("--json", options->json, "Print JSON");
  command
      ->add_flag("--chrome", options->chrome,
                 "Print JSON for Perfetto (ui.perfetto.dev) and chrome://tracing")
      ->excludes(json);
  command->add_option("--host", options->host,
                      "The server (default: BILLOW_HOST, OLLAMA_HOST, or 127.0.0.1:11434)");
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

// billow pull and push: transfer models between the server and registries.
#include "cli/client/transfer.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/interrupt_watch.h"
#include "cli/client/show_text.h"
#include "cli/client/status_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "store/name.h"

namespace billow::cli {
namespace {

struct Options {
  bool insecure = false;
};

void transfer(ApiClient& client, const char* path, const std::string& model, bool insecure) {
  if (!store::parse_name(model))
    throw Error(ErrorCode::kInvalidInput, "invalid model name: " + model);
  Json request = {{"model", model}};
  if (insecure) request["insecure"] = true;
  StatusLine status;
  const InterruptWatch watch([&client] { client.cancel(); });
  const bool is_complete = client.stream(path, request, [&](const Json& object) {
    show_step(object, status);
    return true;
  });
  status.finish();
  if (!is_complete) end_with(exit_status_of(SIGINT));
}

void add_transfer(CLI::App& app, const char* name, const char* description, const char* path) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = add_client_command(
      app, {.name = name, .description = description, .arguments = "MODEL", .min = 1, .max = 1},
      [options, path](const std::vector<std::string>& words) {
        transfer(*connected_client(), path, words[0], options->insecure);
      });
  command.add_flag("--insecure", options->insecure, "Allow a registry without TLS");
}

}  // namespace

void show_step(const Json& object, StatusLine& status) {
  const std::string step = text_field(object, "status");
  const uint64_t total = count_field(object, "total");
  if (total == 0) return status.show(step);
  const bool is_pull =
      step.starts_with("pulling ");  // as in Ollama's client, other steps have no colon
  status.show(is_pull ? step + ":" : step, count_field(object, "completed"), total);
}

void pull_model(ApiClient& client, const std::string& model, bool insecure) {
  transfer(client, "/api/pull", model, insecure);
}

void add_pull(CLI::App& app) {
  add_transfer(app, "pull", "Fetch a model from its registry", "/api/pull");
}

void add_push(CLI::App& app) {
  add_transfer(app, "push", "Send a model to its registry", "/api/push");
}

}  // namespace billow::cli

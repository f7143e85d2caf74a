// billow list, ps, show, cp, rm and stop: manage the models of a running server.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "cli/client/command_line.h"
#include "cli/client/show_text.h"
#include "cli/client/tables.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/option_checks.h"

namespace billow::cli {
namespace {

using Words = std::vector<std::string>;

WallTime now() {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

void list(const Words& words) {
  const Json reply = connected_client()->get("/api/tags");
  print_text(list_table(reply, words.empty() ? "" : words[0], now()));
}

void ps(const Words& words) {
  const Json reply = connected_client()->get("/api/ps");
  print_text(ps_table(reply, words.empty() ? "" : words[0], now()));
}

void copy(const Words& words) {
  connected_client()->post("/api/copy", {{"source", words[0]}, {"destination", words[1]}});
  print_now(fmt::format("copied '{}' to '{}'\n", words[0], words[1]));
}

void unload(ApiClient& client, const std::string& model) {
  client.post("/api/generate", {{"model", model}, {"keep_alive", 0}});
}

void stop(const Words& words) {
  const auto client = connected_client();
  try {
    unload(*client, words[0]);
  } catch (const ApiError& error) {
    if (error.status() != 404) throw;
    throw Error(ErrorCode::kNotFound, fmt::format("couldn't find model \"{}\" to stop", words[0]));
  }
}

void remove(const Words& words) {
  const auto client = connected_client();
  for (const std::string& model : words) {
    try {
      unload(*client, model);
    } catch (const ApiError& error) {
      // Ignores other errors: the deletion reports a missing model better, and a model that this
      // server cannot run is not loaded.
      if (error.status() >= 500) {
        std::fprintf(stderr, "Warning: unable to stop model '%s'\n", model.c_str());
      }
    }
    client->remove("/api/delete", {{"model", model}});
    print_now("deleted '" + model + "'\n");
  }
}

struct ShowOptions {
  bool license = false;
  bool modelfile = false;
  bool parameters = false;
  bool system = false;
  bool template_text = false;
  bool verbose = false;
};

// Returns the requested field, or "" for the overview.
std::string shown_field(const ShowOptions& options) {
  const std::pair<bool, const char*> flags[] = {{options.license, "license"},
                                                {options.modelfile, "modelfile"},
                                                {options.parameters, "parameters"},
                                                {options.system, "system"},
                                                {options.template_text, "template"}};
  std::string field;
  for (const auto& [is_set, name] : flags) {
    if (!is_set) continue;
    if (!field.empty()) {
      refuse_usage(
          "only one of '--license', '--modelfile', '--parameters', '--system', or "
          "'--template' can be specified");
    }
    field = name;
  }
  return field;
}

void show(const ShowOptions& options, const Words& words) {
  const std::string field = shown_field(options);
  Json request = {{"model", words[0]}};
  if (options.verbose) request["verbose"] = true;
  const Json reply = connected_client()->post("/api/show", request);
  if (field.empty()) return print_text(show_text(reply, options.verbose));
  const bool is_raw = field == "system" || field == "template";
  print_text(text_field(reply, field.c_str()) + (is_raw ? "" : "\n"));
}

}  // namespace

void add_list(CLI::App& app) {
  add_client_command(app,
                     {.name = "list",
                      .description = "List the models of the server",
                      .arguments = "[PREFIX]",
                      .max = 1},
                     list)
      .alias("ls");
}

void add_ps(CLI::App& app) {
  add_client_command(
      app, {.name = "ps", .description = "List loaded models", .arguments = "[PREFIX]", .max = 1},
      ps);
}

void add_cp(CLI::App& app) {
  add_client_command(app,
                     {.name = "cp",
                      .description = "Copy a model",
                      .arguments = "SOURCE DESTINATION",
                      .min = 2,
                      .max = 2},
                     copy);
}

void add_rm(CLI::App& app) {
  add_client_command(
      app,
      {.name = "rm", .description = "Remove models", .arguments = "MODEL [MODEL...]", .min = 1},
      remove);
}

void add_stop(CLI::App& app) {
  add_client_command(
      app,
      {.name = "stop", .description = "Unload a model", .arguments = "MODEL", .min = 1, .max = 1},
      stop);
}

void add_show(CLI::App& app) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App& command = add_client_command(app,
                                         {.name = "show",
                                          .description = "Show information about a model",
                                          .arguments = "MODEL",
                                          .min = 1,
                                          .max = 1},
                                         [options](const Words& words) { show(*options, words); });
  command.add_flag("--license", options->license, "Show its license");
  command.add_flag("--modelfile", options->modelfile, "Show its Modelfile");
  command.add_flag("--parameters", options->parameters, "Show its parameters");
  command.add_flag("--system", options->system, "Show its system message");
  command.add_flag("--template", options->template_text, "Show its prompt template");
  command.add_flag("-v,--verbose", options->verbose, "Show metadata and tensors, too");
}

}  // namespace billow::cli

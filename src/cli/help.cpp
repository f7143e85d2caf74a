// billow help and billow version.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/suggestion.h"
#include "cli/command.h"
#include "cli/program.h"
#include "cli/version.h"

namespace billow::cli {

void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show the help of the program or of a command");
  auto name = std::make_shared<std::string>();
  command->add_option("COMMAND", *name, "The command; the whole program if not given");
  command->callback([&app, name] {
    const CLI::App* wanted = name->empty() ? &app : find_command(app, *name);
    if (wanted == nullptr) {
      report_error("unknown command '" + *name + "'" + did_you_mean(*name, command_names(app)));
      throw CLI::RuntimeError(kWrongUsage);
    }
    // App::help() of the program would delegate to the parsed command, which is this one.
    const std::string text = name->empty() ? app.get_formatter()->make_help(
                                                 &app, app.get_name(), CLI::AppFormatMode::Normal)
                                           : wanted->help("billow");
    std::fputs(text.c_str(), stdout);
  });
}

void add_version(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print version, compiler and kernels");
  command->callback([] { std::printf("%s\n", version_text().c_str()); });
}

}  // namespace billow::cli

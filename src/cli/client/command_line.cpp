#include "cli/client/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/suggestion.h"
#include "cli/program.h"
#include "cli/variable.h"

namespace billow::cli {
namespace {

constexpr int kManyWords = 1 << 20;

class UsageOf : public CLI::Formatter {
 public:
  explicit UsageOf(std::string arguments) : arguments_(std::move(arguments)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return "Usage: " + name + (arguments_.empty() ? "" : " " + arguments_) + " [OPTIONS]\n";
  }

 private:
  std::string arguments_;
};

std::string footer(const std::vector<Variable>& variables) {
  if (variables.empty()) return "";
  std::string text = "Environment Variables:";
  for (const Variable& variable : variables) {
    text += fmt::format("\n      {:<27}{}", variable.name, variable.description);
  }
  return text;
}

// Wrong words of the command line.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& what) : Error(ErrorCode::kInvalidInput, what) {}
};

void check_arguments(const ClientCommand& command, const CLI::App& app, size_t n) {
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;
    const std::string option = extra.substr(0, extra.find('='));
    throw UsageError("unknown option '" + option + "'" + did_you_mean(option, option_names(app)));
  }
  if (command.min == command.max && n != command.min) {
    throw UsageError(fmt::format("{} argument{} needed, {} given: billow {} {}", command.min,
                                 command.min == 1 ? " is" : "s are", n, command.name,
                                 command.arguments));
  }
  if (n > command.max) {
    throw UsageError(fmt::format("at most {} argument{} allowed, {} given: billow {} {}",
                                 command.max, command.max == 1 ? " is" : "s are", n, command.name,
                                 command.arguments));
  }
  if (n < command.min) {
    throw UsageError(fmt::format("at least {} argument{} needed, {} given: billow {} {}",
                                 command.min, command.min == 1 ? " is" : "s are", n, command.name,
                                 command.arguments));
  }
}

}  // namespace

CLI::App& add_client_command(CLI::App& app, const ClientCommand& command,
                             std::function<void(const std::vector<std::string>&)> run) {
  CLI::App* added = app.add_subcommand(command.name, command.description);
  added->formatter(std::make_shared<UsageOf>(command.arguments));
  added->footer(footer(command.variables));
  added->allow_extras();  // check_arguments reports them
  const auto words = std::make_shared<std::vector<std::string>>();
  // A fixed count, because the library splits "[a,b]" in lists of any length.
  added->add_option("ARGUMENTS", *words)
      ->expected(kManyWords)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("");
  added->callback([added, command, words, run = std::move(run)] {
    try {
      check_arguments(command, *added, words->size());
      run(*words);
    } catch (const CLI::Error&) {
      throw;
    } catch (const UsageError& error) {
      end_with(report_usage(*added, error.what()));
    } catch (const std::exception& error) {
      end_with(report_error(error.what()));
    }
  });
  return *added;
}

void end_with(int status) { throw CLI::RuntimeError(status); }

scheduler::Environment client_environment() {
  return scheduler::read_environment(variable, [](const std::string& text) { log::warn(text); });
}

std::unique_ptr<ApiClient> connected_client() {
  auto client = std::make_unique<ApiClient>(client_environment().host.for_clients());
  client->check_server();
  return client;
}

}  // namespace billow::cli

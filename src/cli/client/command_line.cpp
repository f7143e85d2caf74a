#include "cli/client/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"

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
  std::string text = "Environment Variables:";
  for (const Variable& variable : variables) {
    text += fmt::format("\n      {:<27}{}", variable.name, variable.description);
  }
  return text;
}

void check_arguments(const ClientCommand& command, const CLI::App& app, size_t n) {
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;
    if (extra.starts_with("--")) {
      throw Error(ErrorCode::kInvalidInput, "unknown flag: " + extra.substr(0, extra.find('=')));
    }
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("unknown shorthand flag: '{}' in {}", extra.substr(1, 1), extra));
  }
  if (command.min == command.max && n != command.min) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("accepts {} arg(s), received {}", command.min, n));
  }
  if (n < command.min) {
    throw Error(ErrorCode::kInvalidInput,
                fmt::format("requires at least {} arg(s), only received {}", command.min, n));
  }
}

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
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
    } catch (const std::exception& error) {
      std::fflush(stdout);
      std::fprintf(stderr, "Error: %s\n", error.what());
      end_with(1);
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

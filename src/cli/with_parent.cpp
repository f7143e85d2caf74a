// billow with-parent PROGRAM...: replaces itself with another program, which ends when the parent
// process ends. Runners use it to start llama-server.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/parent.h"
#include "process/environment.h"

namespace billow::cli {
namespace {

struct WithParentOptions {
  std::string without;  // prefix of variables to remove
  std::vector<std::string> set;
  std::vector<std::string> command;
};

void remove_variables(const std::string& prefix) {
  if (prefix.empty()) return;
  std::vector<std::string> names;
  for (char** entry = process::environment(); *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

[[noreturn]] void run(WithParentOptions& options) {
  if (::getppid() != 1) end_with_parent();
  remove_variables(options.without);
  for (const std::string& variable : options.set) {
    const size_t at = variable.find('=');
    if (at == 0 || at == std::string::npos)
      throw Error(ErrorCode::kInvalidInput, "--set " + variable + ": write NAME=VALUE");
    ::setenv(variable.substr(0, at).c_str(), variable.substr(at + 1).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (std::string& argument : options.command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  throw system_error("cannot start", options.command.front(), errno);
}

}  // namespace

void end_with_parent() {
  const pid_t parent = ::getppid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (parent == 1 || ::getppid() != parent)
    throw Error(ErrorCode::kInvalidInput, "--with-parent: the parent has already ended");
}

void add_with_parent(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("with-parent", "Run a program that ends with the parent of this process");
  command->group("");  // hidden, because only runners use it
  auto options = std::make_shared<WithParentOptions>();
  command->add_option("--without", options->without,
                      "Remove variables whose names begin with this");
  command->add_option("--set", options->set, "NAME=VALUE, a variable; repeatable")
      ->take_all()
      ->expected(1);
  command->add_option("PROGRAM", options->command, "A path and its arguments")->required();
  command->positionals_at_end();
  command->callback([options] { run(*options); });
}

}  // namespace billow::cli

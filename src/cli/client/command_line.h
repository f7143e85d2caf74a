// What the commands that talk to a server share: how they are declared, how they end, and their
// way to the server. For the main thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/client/api_client.h"
#include "scheduler/environment.h"

namespace CLI {
class App;
}

namespace billow::cli {

// A variable of the environment that a command heeds, and what for.
struct Variable {
  const char* name;
  const char* description;
};
inline constexpr Variable kHostVariable = {
    "OLLAMA_HOST", "Where the server listens (default 127.0.0.1:11434); BILLOW_HOST goes first"};

struct ClientCommand {
  const char* name;
  const char* description;
  const char* arguments;    // as the usage line shows them: "SOURCE DESTINATION"
  size_t min = 0;           // arguments
  size_t max = size_t(-1);  // the same as `least`: exactly so many
  std::vector<Variable> variables{kHostVariable};
};

// Declares the command; options can be added to what is returned. `run` is given the arguments that
// are no options. An exception that it throws becomes "Error: ..." on standard error and status 1.
CLI::App& add_client_command(CLI::App& app, const ClientCommand& command,
                             std::function<void(const std::vector<std::string>&)> run);

// Ends the program quietly.
[[noreturn]] void end_with(int status);

// BILLOW_NAME, else OLLAMA_NAME.
scheduler::Environment client_environment();
// Of the server that the environment names, which is running. Throws Error when it is not.
std::unique_ptr<ApiClient> connected_client();

}  // namespace billow::cli

// Shared by the commands that talk to a server: declaration, exit and connection. Use it from the
// main thread.
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

// An environment variable of a command, and its help text.
struct Variable {
  const char* name;
  const char* description;
};
inline constexpr Variable kHostVariable = {
    "OLLAMA_HOST", "Address of the server (default 127.0.0.1:11434); BILLOW_HOST overrides it"};

struct ClientCommand {
  const char* name;
  const char* description;
  const char* arguments;    // as the usage line shows them: "SOURCE DESTINATION"
  size_t min = 0;           // number of arguments
  size_t max = size_t(-1);  // equal to `min`: exactly that number
  std::vector<Variable> variables{kHostVariable};
};

// Declares the command and returns it, so that options can be added. `run` receives the arguments
// that are not options. Exceptions of `run` become "billow: error: ..." on standard error and exit
// status 1.
CLI::App& add_client_command(CLI::App& app, const ClientCommand& command,
                             std::function<void(const std::vector<std::string>&)> run);

// Ends the program without a message, with this exit status.
[[noreturn]] void end_with(int status);

// Reads the settings from BILLOW_NAME or, if not set, OLLAMA_NAME.
scheduler::Environment client_environment();
// Returns a client for the server that the environment names. Throws Error if the server is not
// running.
std::unique_ptr<ApiClient> connected_client();

}  // namespace billow::cli

// The settings of `billow serve`, from its options and the environment.
#pragma once

#include <string>
#include <vector>

#include "cli/serve_options.h"
#include "scheduler/environment.h"
#include "server/options.h"

namespace billow::cli {

// The server and its runners are this program.
inline constexpr const char* kProgram = "/proc/self/exe";

// Reads the environment. A wrong value causes a warning, and the default is used.
scheduler::Environment serve_environment(const ServeOptions& options, const scheduler::Warn& warn);

struct ServeSettings {
  server::Options server;              // without start_runner
  std::vector<std::string> arguments;  // of all runners; the model is not among them
};

// Returns the settings. Throws Error if the server cannot start with them. Changes nothing, so that
// `billow doctor` can check the settings, too.
ServeSettings serve_settings(const ServeOptions& options, const scheduler::Environment& environment,
                             const scheduler::Warn& warn);

}  // namespace billow::cli

// The variables of the environment that set options of `billow serve`. For the main thread.
#pragma once

#include <string>
#include <string_view>

#include "scheduler/environment.h"

namespace CLI {
class App;
}

namespace billow::cli {

// Returns the variable of an option of `billow serve` without its prefix ("KEEP_ALIVE"), or an
// empty text.
std::string_view variable_of(std::string_view key);

// Returns the variable that decides: BILLOW_NAME or OLLAMA_NAME; an empty text if neither has a
// value. As for scheduler::read_environment(), blanks and quotes alone are no value.
std::string deciding_variable(std::string_view name);

// Returns a lookup of the environment for read_environment(). If the check of the option in
// `command` refuses the value of its variable, the lookup warns and finds nothing.
scheduler::Lookup checked_variables(const CLI::App& command, scheduler::Warn warn);

}  // namespace billow::cli

// Reads variables of the environment. For the main thread.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace billow::cli {

// Returns the value of a variable; nullopt if it is not set. A scheduler::Lookup.
inline std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace billow::cli

// Finds llama-server. Thread-safe.
#pragma once

#include <optional>
#include <string>

namespace billow::llama {

// Returns `wanted` if it is not empty, else the llama-server on PATH. Returns nullopt if there is
// none. Throws Error if `wanted` is not an executable program.
std::optional<std::string> find_server(const std::string& wanted);

}  // namespace billow::llama

// Where llama-server is. Any thread.
#pragma once

#include <optional>
#include <string>

namespace billow::llama {

// `wanted` where it is not empty, else the one that PATH finds. nullopt: there is none. Throws
// Error where the wanted one cannot be run.
std::optional<std::string> find_server(const std::string& wanted);

}  // namespace billow::llama

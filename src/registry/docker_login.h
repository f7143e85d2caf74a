// The user's names and passwords for registries, as Docker's programs keep them: config.json in the
// folder that DOCKER_CONFIG names, or ~/.docker. Pure function; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::registry {

inline constexpr uint64_t kMaxDockerConfigBytes = uint64_t{1} << 20;

// "user:password" in base64, as the field Authorization has it behind "Basic ", of the registry at
// "HOST[:PORT]"; empty where the file's text has none. Logins that a helper program keeps
// (credsStore) are not found.
std::string docker_login(std::string_view config_text, std::string_view host);

}  // namespace billow::registry

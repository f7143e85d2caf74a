// Reads the user's names and passwords for registries from Docker's file. The file is config.json
// in the folder DOCKER_CONFIG or in ~/.docker. Pure function; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace billow::registry {

inline constexpr uint64_t kMaxDockerConfigBytes = uint64_t{1} << 20;

// Returns "user:password" in base64 for the registry at "HOST[:PORT]". The field Authorization has
// this text after "Basic ". Returns an empty string if the file has no login. Logins in a helper
// program (credsStore) are not read.
std::string docker_login(std::string_view config_text, std::string_view host);

}  // namespace billow::registry

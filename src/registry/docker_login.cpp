#include "registry/docker_login.h"

#include "base/base64.h"
#include "base/json.h"

namespace billow::registry {
namespace {

// Keys of the file are hosts, or addresses in an older form: "https://index.docker.io/v1/".
std::string_view host_of_key(std::string_view key) {
  if (const size_t scheme = key.find("://"); scheme != std::string_view::npos)
    key.remove_prefix(scheme + 3);
  return key.substr(0, key.find('/'));
}

}  // namespace

std::string docker_login(std::string_view config_text, std::string_view host) {
  const Json json = Json::parse(config_text, nullptr, false);
  if (!json.is_object() || !json.contains("auths") || !json["auths"].is_object()) return "";
  for (const auto& [key, entry] : json["auths"].items()) {
    if (host_of_key(key) != host || !entry.is_object() || !entry.contains("auth")) continue;
    if (!entry["auth"].is_string()) continue;
    const auto login = entry["auth"].get<std::string>();
    const auto plain = base64_decoded(login);
    if (plain && plain->find(':') != std::string::npos) return base64_encoded(*plain);
  }
  return "";
}

}  // namespace billow::registry

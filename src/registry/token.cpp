#include "registry/token.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "http/url.h"
#include "registry/origin.h"
#include "store/digest.h"

namespace billow::registry {
namespace {

bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Returns the parent of a host: "example.com" for "registry.example.com". Empty if the parent has
// less than two names.
std::string_view parent_of(std::string_view host) {
  if (is_address(host)) return {};
  const size_t dot = host.find('.');
  const std::string_view parent = dot == std::string_view::npos ? "" : host.substr(dot + 1);
  return parent.find('.') == std::string_view::npos ? std::string_view() : parent;
}

bool is_below(std::string_view host, std::string_view parent) {
  return !parent.empty() && host.size() > parent.size() && host.ends_with(parent) &&
         host[host.size() - parent.size() - 1] == '.';
}

}  // namespace

bool is_trusted_realm(std::string_view realm, std::string_view registry_url) {
  const std::optional<Origin> asks = origin_of(realm);
  const std::optional<Origin> registry = origin_of(registry_url);
  if (!asks || !registry) return false;
  if (asks->scheme == "http" && registry->scheme != "http") return false;
  if (asks->host == registry->host) return true;
  if (is_address(asks->host) || is_address(registry->host)) return false;
  const std::string_view parent = parent_of(registry->host);
  return is_below(asks->host, registry->host) || asks->host == parent ||
         is_below(asks->host, parent);
}

namespace {

using Query = std::vector<std::pair<std::string_view, std::string_view>>;

// Returns the realm with `first`, a "scope" for each scope of the challenge, "service" and `last`.
std::string realm_with(const Challenge& challenge, const Query& first, const Query& last) {
  std::string url = challenge.parameter("realm");
  const auto add = [&](std::string_view name, std::string_view value) {
    url += url.find('?') == std::string::npos ? '?' : '&';
    url += name;
    url += '=';
    url += http::percent_encoded(value);
  };
  for (const auto& [name, value] : first) add(name, value);
  std::string_view scopes = challenge.parameter("scope");
  while (!(scopes = trimmed(scopes)).empty()) {
    const size_t end = std::min(scopes.find(' '), scopes.size());
    add("scope", scopes.substr(0, end));
    scopes.remove_prefix(end);
  }
  add("service", challenge.parameter("service"));
  for (const auto& [name, value] : last) add(name, value);
  return url;
}

}  // namespace

TokenRequest token_request(const Challenge& challenge, const IdentityKey& key,
                           std::string_view nonce, int64_t unix_time) {
  const std::string time = std::to_string(unix_time);
  TokenRequest request{.url = realm_with(challenge, {{"nonce", nonce}}, {{"ts", time}}),
                       .authorization = {}};
  const std::string sum = base64_encoded(store::digest_of("").hex());
  request.authorization = key.public_text() + ":" + key.sign("GET," + request.url + "," + sum);
  return request;
}

TokenRequest token_request(const Challenge& challenge, const std::string& login) {
  return {.url = realm_with(challenge, {}, {}), .authorization = "Basic " + login};
}

std::string parse_token(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  for (const char* name : {"token", "access_token"}) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string()) continue;
    auto token = json[name].get<std::string>();
    const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
    if (!token.empty() && std::ranges::all_of(token, is_plain)) return token;
  }
  throw Error(ErrorCode::kInvalidInput, "the registry's response has no token");
}

}  // namespace billow::registry

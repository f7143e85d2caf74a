// Builds requests for registry tokens and parses the replies. Ollama's registry requires a
// signature with the user's key. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "registry/challenge.h"
#include "registry/identity_key.h"

namespace billow::registry {

// Returns whether the user's signature may be sent to a realm, the URL that a registry names in its
// challenge. The scheme must be https, or http if the registry itself is used by http. The host
// must be the registry's host or a host below it. A host with the same parent of at least two names
// is also allowed. Example: "auth.example.com" for "registry.example.com". `registry_url`: any
// address on the registry.
bool is_trusted_realm(std::string_view realm, std::string_view registry_url);

struct TokenRequest {
  std::string url;            // for GET
  std::string authorization;  // value of the field Authorization
};

// Builds the token request. The URL is the realm with `nonce`, one `scope` for each scope of the
// challenge, `service` and `ts`. The user's key signs "GET,URL,SUM". SUM is the base64 form of the
// hexadecimal SHA-256 sum of no bytes. `nonce`: random letters and digits; `unix_time`: seconds.
TokenRequest token_request(const Challenge& challenge, const IdentityKey& key,
                           std::string_view nonce, int64_t unix_time);

// Builds the token request for a user with a password. `login` is "user:password" in base64.
TokenRequest token_request(const Challenge& challenge, const std::string& login);

// Returns the token of a reply: "token" or "access_token", because the distribution's specification
// has both. Throws Error (kInvalidInput) if the reply has no token that can be sent.
std::string parse_token(std::string_view body);

}  // namespace billow::registry

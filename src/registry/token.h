// Tokens of registries: the request by which one is asked for, signed with the user's key as
// Ollama's registry wants it, and what comes back. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "registry/challenge.h"
#include "registry/identity_key.h"

namespace billow::registry {

// Whether the user's signature may go to a realm, the URL that a registry names in its challenge:
// by https, or by http where the registry itself is asked so; on the registry's host, a host below
// it, or a host that has the same parent of two names or more ("auth.example.com" for
// "registry.example.com"). `registry_url`: any address on the registry.
bool is_trusted_realm(std::string_view realm, std::string_view registry_url);

struct TokenRequest {
  std::string url;            // for GET
  std::string authorization;  // the field of that name
};

// The URL is the realm with `nonce`, a `scope` for each that the challenge names, `service` and
// `ts`. The signature is that of "GET,URL,SUM"; SUM is the base64 form of the hexadecimal SHA-256
// sum of nothing. `nonce`: random letters and digits; `unix_time`: seconds.
TokenRequest token_request(const Challenge& challenge, const IdentityKey& key,
                           std::string_view nonce, int64_t unix_time);

// The same for a user with a password: `login` is "user:password" in base64.
TokenRequest token_request(const Challenge& challenge, const std::string& login);

// The token of an answer: "token", or "access_token" (the distribution's specification has both).
// Throws Error (kInvalidInput) where there is none that can be sent.
std::string parse_token(std::string_view body);

}  // namespace billow::registry

// The salt of a request's text: requests with different salts share no caches that could show what
// others have sent. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/fields.h"

namespace billow::api {

// Returns the field "cache_salt" of a request; empty if it has none. Throws http::StatusError (400)
// if it is not a text of at most 1,024 bytes.
std::string cache_salt_of(const Fields& fields);

// Returns the salt for an API key's name and a `cache_salt`: 63 bits of a SHA-256, the same on
// every machine. 0 if both are empty. Nobody can find another pair with the same salt.
uint64_t prefix_salt(std::string_view key, std::string_view cache_salt);

// Returns the key of the slots (api/slots.h) of requests with this salt.
std::string slot_key(const std::string& runner_key, uint64_t salt);

}  // namespace billow::api

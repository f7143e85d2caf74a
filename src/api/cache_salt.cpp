#include "api/cache_salt.h"

#include <algorithm>

#include "base/json.h"
#include "http/status.h"
#include "store/digest.h"

namespace billow::api {

std::string cache_salt_of(const Fields& fields) {
  constexpr size_t kMaxBytes = 1024;
  const Json* value = fields.value("cache_salt");
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string()) throw http::StatusError(400, "cache_salt must be a text");
  std::string salt = value->get<std::string>();
  if (salt.size() > kMaxBytes)
    throw http::StatusError(400, "cache_salt must have at most 1024 bytes");
  return salt;
}

uint64_t prefix_salt(std::string_view key, std::string_view cache_salt) {
  if (key.empty() && cache_salt.empty()) return 0;
  // The length separates the two.
  std::string text = std::to_string(key.size()) + ":";
  text.append(key).append(cache_salt);
  const store::Digest digest = store::digest_of(text);
  uint64_t salt = 0;
  for (size_t i = 0; i < sizeof(salt); ++i) salt = salt << 8 | digest.bytes[i];
  return std::max<uint64_t>(salt >> 1, 1);
}

std::string slot_key(const std::string& runner_key, uint64_t salt) {
  return salt == 0 ? runner_key : runner_key + "\nsalt " + std::to_string(salt);
}

}  // namespace billow::api

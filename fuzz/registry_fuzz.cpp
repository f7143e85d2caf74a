// Parses any bytes as the response of a registry, a Docker file or a part file: a challenge, a
// token, an error text, a redirect address, a login, a part of a blob.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/base64.h"
#include "base/check.h"
#include "base/error.h"
#include "base/utf8.h"
#include "registry/challenge.h"
#include "registry/docker_login.h"
#include "registry/origin.h"
#include "registry/parts.h"
#include "registry/session.h"
#include "registry/token.h"
#include "registry/web_file.h"

namespace {

using namespace billow;

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

void check_challenges(std::string_view text) {
  for (const registry::Challenge& challenge : registry::parse_challenges(text)) {
    BILLOW_CHECK(!challenge.scheme.empty() && is_plain(challenge.scheme));
    const std::string& realm = challenge.parameter("realm");
    if (!registry::is_trusted_realm(realm, "https://registry.example.com/v2/")) continue;
    const auto origin = registry::origin_of(realm);
    BILLOW_CHECK(origin && origin->scheme == "https");
    BILLOW_CHECK(origin->host == "example.com" || origin->host.ends_with(".example.com"));
    const auto request = registry::token_request(challenge, "bG9naW4=");
    BILLOW_CHECK(registry::origin_of(request.url) == origin);
  }
}

void check_token(std::string_view text) {
  try {
    const std::string token = registry::parse_token(text);
    BILLOW_CHECK(!token.empty() && is_plain(token));
  } catch (const Error&) {  // the text has no token
  }
}

void check_error_text(std::string_view text) {
  registry::Reply reply;
  reply.status = 500;
  reply.body = text;
  const std::string line = registry::error_text(reply);
  BILLOW_CHECK(utf8::is_valid(line) && line.size() < 2000);
  BILLOW_CHECK(std::ranges::none_of(line, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }));
}

void check_address(const std::string& text) {
  for (const char* base : {"https://a.example/v2/x/y/blobs/z?q", "http://[::1]:80/"}) {
    const auto url = registry::resolved_url(base, text);
    if (!url) continue;
    BILLOW_CHECK(url->starts_with("http://") || url->starts_with("https://"));
    BILLOW_CHECK(registry::origin_of(*url).has_value());
  }
  if (!registry::is_file_address(text)) return;
  BILLOW_CHECK(!registry::file_name_of(text).empty());
  BILLOW_CHECK(registry::file_name_of(text).find('/') == std::string::npos);
  BILLOW_CHECK(!registry::file_addresses(text).empty());
}

void check_part(std::string_view text) {
  const auto part = registry::parse_part(text);
  if (!part) return;
  BILLOW_CHECK(part->part.completed <= part->part.size && part->part.end() >= part->part.offset);
  BILLOW_CHECK(registry::parse_part(registry::to_text(part->index, part->part)) == part);
  const auto all = registry::resumed_parts({*part}, part->part.size);
  BILLOW_CHECK(!all || registry::completed_bytes(*all) <= part->part.size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_challenges(text);
  check_token(text);
  check_error_text(text);
  check_address(text);
  check_part(text);
  const std::string login = registry::docker_login(text, "registry.example");
  const auto plain = base64_decoded(login);
  BILLOW_CHECK(login.empty() || (plain && plain->find(':') != std::string::npos));
  return 0;
}

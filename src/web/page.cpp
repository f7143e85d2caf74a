#include "web/page.h"

#include <algorithm>
#include <string>

namespace billow::web {
namespace {

// Allows only scripts and styles of this server. Only Svelte may turn text into HTML. Other pages
// may not show this page in a frame.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types svelte-trusted-html";
constexpr std::string_view kImmutable = "public, max-age=31536000, immutable";
constexpr std::string_view kRevalidate = "no-cache";
constexpr std::string_view kFirstPage = "index.html";

// Returns whether If-None-Match contains this tag or "*". The comparison ignores "W/" (weak tags).
bool names_tag(const http::Headers& headers, std::string_view etag) {
  if (headers.has_token("If-None-Match", "*")) return true;
  return headers.has_token("If-None-Match", etag) ||
         headers.has_token("If-None-Match", "W/" + std::string(etag));
}

}  // namespace

http::Response answer(std::span<const Asset> assets, std::string_view name,
                      const http::Request& request) {
  if (assets.empty())
    return http::text_response(404, "this program was built without its web page\n");
  const std::string_view wanted = name.empty() ? kFirstPage : name;
  const auto found = std::ranges::find(assets, wanted, &Asset::name);
  if (found == assets.end()) return http::text_response(404, "404 page not found");

  const bool is_small =
      !found->gzip.empty() && http::accepts(request.headers, "Accept-Encoding", "gzip");
  const std::string_view etag = is_small ? found->gzip_etag : found->etag;
  http::Response response;
  const auto add = [&](const char* field, std::string_view value) {
    response.headers.add(field, std::string(value));
  };
  add("ETag", etag);
  add("Cache-Control", found->is_immutable ? kImmutable : kRevalidate);
  add("Vary", "Accept-Encoding");
  add("Content-Security-Policy", kPolicy);
  add("X-Content-Type-Options", "nosniff");
  add("Referrer-Policy", "no-referrer");
  add("Cross-Origin-Resource-Policy", "same-origin");
  if (names_tag(request.headers, etag)) {
    response.status = 304;
    return response;
  }
  response.content_type = found->type;
  if (is_small) add("Content-Encoding", "gzip");
  response.body = is_small ? found->gzip : found->bytes;
  return response;
}

http::Response redirect(std::string_view location, bool is_permanent) {
  http::Response response{.status = is_permanent ? 308 : 302};
  response.headers.add("Location", std::string(location));
  return response;
}

}  // namespace billow::web

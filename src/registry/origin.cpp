#include "registry/origin.h"

#include <memory>
#include <utility>

#include "base/text.h"
#include "registry/curl_api.h"

namespace billow::registry {

std::optional<Origin> origin_of(std::string_view url) {
  const size_t end = url.find("://");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view scheme = url.substr(0, end);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  std::string_view authority = url.substr(end + 3);
  authority = authority.substr(0, authority.find_first_of("/?#\\"));
  if (authority.find('@') != std::string_view::npos) return std::nullopt;
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return std::nullopt;
  const size_t colon = authority.find(':', bracket);
  std::string host(authority.substr(0, colon));
  std::string port(colon == std::string_view::npos ? "" : authority.substr(colon + 1));
  if (host.empty() || port.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  if (port.empty()) port = scheme == "http" ? "80" : "443";
  host = lower_case(host);
  return Origin{std::string(scheme), std::move(host), std::move(port)};
}

std::optional<std::string> resolved_url(const std::string& base, const std::string& reference) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl().url(), curl().url_cleanup);
  if (!url || curl().url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl().url_set(url.get(), CURLUPART_URL, reference.c_str(), CURLU_URLENCODE) != CURLUE_OK) {
    return std::nullopt;
  }
  char* text = nullptr;
  if (curl().url_get(url.get(), CURLUPART_URL, &text, 0) != CURLUE_OK) return std::nullopt;
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, curl().free);
  std::string resolved(text);
  if (!origin_of(resolved)) return std::nullopt;
  return resolved;
}

}  // namespace billow::registry

#include "http/access.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "http/authority.h"

namespace billow::http {
namespace {

constexpr std::string_view kAllowedMethods = "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS";
constexpr std::string_view kAllowedHeaders =
    "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,Openai-Beta,X-Stainless-Lang,"
    "X-Stainless-Package-Version,X-Stainless-Os,X-Stainless-Arch,X-Stainless-Retry-Count,"
    "X-Stainless-Runtime,X-Stainless-Runtime-Version,X-Stainless-Async,X-Stainless-Helper-Method,"
    "X-Stainless-Poll-Helper,X-Stainless-Custom-Poll-Interval,X-Stainless-Timeout,"
    // Beyond Ollama's:
    "X-Request-Id,Traceparent,X-Billow-Events,X-Billow-Priority,X-Billow-Client,X-Api-Key,"
    "Tracestate,Baggage,Anthropic-Version,Anthropic-Beta,Anthropic-Dangerous-Direct-Browser-Access,"
    "OpenAI-Organization,OpenAI-Project,X-Stainless-Helper,Idempotency-Key,X-Client-Request-Id";
constexpr std::string_view kExposedHeaders =
    "X-Request-Id,X-Billow-Node,X-Billow-Context,X-Billow-Context-Reason,X-Billow-Shortened,"
    "X-Billow-Truncated,Retry-After,Request-Id,X-Billow-Tools-Left-Out,WWW-Authenticate";
constexpr std::string_view kMaxAgeSeconds = "43200";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// Returns whether lower-case `text` begins with a scheme followed by more text.
bool has_scheme(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0 || end + 3 == text.size()) return false;
  const std::string_view scheme = text.substr(0, end);
  return is_letter(scheme.front()) && std::ranges::all_of(scheme, [](char c) {
           return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
         });
}

bool is_local_ipv4(std::span<const unsigned char> ip) {
  return ip[0] == 127 || ip[0] == 10 || (ip[0] == 172 && (ip[1] & 0xf0) == 16) ||
         (ip[0] == 192 && ip[1] == 168) || std::ranges::all_of(ip, [](int b) { return b == 0; });
}

// Returns whether `ip` is loopback, private (RFC 1918, RFC 4193) or unspecified.
bool is_local_ipv6(const in6_addr& ip) {
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return is_local_ipv4(std::span(ip.s6_addr).subspan(12));
  return IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_UNSPECIFIED(&ip) ||
         (ip.s6_addr[0] & 0xfe) == 0xfc;
}

// Returns the 4 or 16 bytes of a numeric address; empty if `text` is not an address.
std::string address_bytes(const std::string& text) {
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return {bytes.data(), 4};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return {bytes.data(), bytes.size()};
  return {};
}

bool is_local_address(const std::string& bytes, const MachineNames& machine) {
  const auto is_same = [&](const std::string& own) { return address_bytes(own) == bytes; };
  if (std::ranges::any_of(machine.addresses, is_same)) return true;
  if (bytes.size() == 4) {
    std::array<unsigned char, 4> ip{};
    std::memcpy(ip.data(), bytes.data(), ip.size());
    return is_local_ipv4(ip);
  }
  in6_addr ip{};
  std::memcpy(&ip, bytes.data(), sizeof ip);
  return is_local_ipv6(ip);
}

bool is_local_name(const std::string& name, const MachineNames& machine) {
  return name.empty() || name == "localhost" || name == lower_case(machine.host_name) ||
         name.ends_with(".localhost") || name.ends_with(".local") || name.ends_with(".internal");
}

// Returns `text` in quotes, cut to a length that fits into one line.
std::string quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 100;
  const bool is_cut = text.size() > kMaxBytes;
  return '"' + utf8::sanitized(text.substr(0, kMaxBytes)) + (is_cut ? "...\"" : "\"");
}

Response empty_response(int status) { return {.status = status}; }

Response preflight_response(const AllowedOrigins& origins, std::string_view origin) {
  Response response = empty_response(204);
  Headers& headers = response.headers;
  headers.add("Access-Control-Allow-Origin", std::string(origins.allows_all() ? "*" : origin));
  headers.add("Access-Control-Allow-Methods", std::string(kAllowedMethods));
  headers.add("Access-Control-Allow-Headers", std::string(kAllowedHeaders));
  headers.add("Access-Control-Max-Age", std::string(kMaxAgeSeconds));
  if (!origins.allows_all()) {
    headers.add("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  }
  return response;
}

// Returns whether a Host field has an address instead of a name.
bool is_address(std::string_view host) {
  const std::optional<Authority> authority = parse_authority(host);
  return authority && !address_bytes(authority->host).empty();
}

// Returns whether the page comes from this server itself.
bool is_own_origin(std::string_view origin, std::string_view host) {
  return !host.empty() &&
         (origin == "http://" + std::string(host) || origin == "https://" + std::string(host));
}

}  // namespace

AllowedOrigins::AllowedOrigins(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view entry = trimmed(list.substr(0, comma), " \t");
    if (!entry.empty()) add(entry);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  for (const std::string host : {"localhost", "127.0.0.1", "0.0.0.0"}) {
    for (const std::string scheme : {"http://", "https://"}) {
      add(scheme + host);
      add(scheme + host + ":*");
    }
  }
  for (const char* scheme : {"app", "file", "tauri", "vscode-webview", "vscode-file"}) {
    add(std::string(scheme) + "://*");
  }
}

void AllowedOrigins::add(std::string_view text) {
  if (text == "*") {
    allows_all_ = true;
    return;
  }
  const std::string lowered = lower_case(text);
  if (!has_scheme(lowered)) {
    throw Error(ErrorCode::kInvalidInput,
                "allowed origin \"" + std::string(text) +
                    "\": write it as scheme://host[:port], such as http://example.com, or *");
  }
  const size_t star = lowered.find('*');
  if (star == std::string::npos) {
    entries_.push_back({.before = lowered});
    return;
  }
  if (lowered.find('*', star + 1) != std::string::npos) {
    throw Error(ErrorCode::kInvalidInput, "allowed origin \"" + std::string(text) +
                                              "\": has more than one *; write one entry for each");
  }
  const size_t host = lowered.find("://") + 3;
  const bool is_port = star + 1 == lowered.size() && star > host && lowered[star - 1] == ':';
  entries_.push_back({.before = lowered.substr(0, star),
                      .after = lowered.substr(star + 1),
                      .kind = is_port ? Entry::Kind::kAnyPort : Entry::Kind::kAnyText});
}

bool AllowedOrigins::matches(const Entry& entry, std::string_view origin) {
  if (entry.kind == Entry::Kind::kExact) return origin == entry.before;
  if (origin.size() < entry.before.size() + entry.after.size()) return false;
  if (!origin.starts_with(entry.before) || !origin.ends_with(entry.after)) return false;
  if (entry.kind == Entry::Kind::kAnyText) return true;
  // Only digits count as a port: "http://localhost:1.evil.example" is another host.
  const std::string_view port = origin.substr(entry.before.size());
  return !port.empty() && port.size() <= 5 && std::ranges::all_of(port, is_digit);
}

bool AllowedOrigins::allows(std::string_view origin) const {
  if (allows_all_) return true;
  const std::string lowered = lower_case(origin);
  return std::ranges::any_of(entries_, [&](const Entry& e) { return matches(e, lowered); });
}

MachineNames machine_names() {
  MachineNames names;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) names.host_name = name.data();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return names;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (item->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* bytes = nullptr;
    if (item->ifa_addr->sa_family == AF_INET) {
      bytes = &reinterpret_cast<const sockaddr_in*>(item->ifa_addr)->sin_addr;
    } else if (item->ifa_addr->sa_family == AF_INET6) {
      bytes = &reinterpret_cast<const sockaddr_in6*>(item->ifa_addr)->sin6_addr;
    }
    if (bytes != nullptr &&
        inet_ntop(item->ifa_addr->sa_family, bytes, text.data(), text.size()) != nullptr) {
      names.addresses.emplace_back(text.data());
    }
  }
  return names;
}

bool is_local_host(std::string_view host, const MachineNames& machine) {
  const std::optional<Authority> authority = parse_authority(trimmed(host, " \t"));
  if (!authority) return false;
  const std::string bytes = address_bytes(authority->host);
  return bytes.empty() ? is_local_name(lower_case(authority->host), machine)
                       : is_local_address(bytes, machine);
}

Verdict check_access(const AllowedOrigins& origins, const MachineNames& machine, BindKind bind,
                     const Request& request) {
  const std::string_view host = request.headers.get("Host");
  const std::string_view origin = request.headers.get("Origin");
  const bool is_options = request.method == Method::kOptions;
  Verdict verdict;
  if (!origin.empty() && !is_own_origin(origin, host)) {
    if (!origins.allows(origin)) {
      verdict.refusal =
          "the web page " + quoted(origin) +
          " is not allowed to use this server; --origins (OLLAMA_ORIGINS) lists the pages that are";
      return verdict;
    }
    if (is_options) {
      verdict.answer = preflight_response(origins, origin);
      return verdict;
    }
    verdict.headers.add("Access-Control-Allow-Origin",
                        std::string(origins.allows_all() ? "*" : origin));
    verdict.headers.add("Access-Control-Expose-Headers", std::string(kExposedHeaders));
    if (!origins.allows_all()) verdict.headers.add("Vary", "Origin");
  }
  if (bind != BindKind::kLoopback) return verdict;
  if (!is_local_host(host, machine)) {
    verdict.refusal = quoted(host) +
                      " is not a name of this machine, and this server serves this machine only; "
                      "--host (OLLAMA_HOST) sets the address to listen on";
  } else if (is_options && !is_address(host)) {
    verdict.answer = empty_response(204);
  }
  return verdict;
}

}  // namespace billow::http

#include "api/picture_addresses.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "http/status.h"
#include "registry/origin.h"

namespace billow::api {
namespace {

using http::StatusError;
using registry::Origin;

constexpr int kMaxRedirects = 5;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

struct Entry {
  std::string_view host;
  std::string_view port;  // empty: the usual ports
};

// An IPv6 address has brackets, so its colons are no border of a port.
Entry split(std::string_view text) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

bool matches(const std::string& given, const Origin& origin) {
  const Entry entry = split(given);
  const std::string usual_port = origin.scheme == "http" ? "80" : "443";
  if (origin.port != (entry.port.empty() ? std::string_view(usual_port) : entry.port)) return false;
  if (entry.host == "*") return true;
  if (entry.host.starts_with("*.")) return origin.host.ends_with(entry.host.substr(1));
  return origin.host == entry.host;
}

// Returns what is wrong with an entry of the option, or an empty string.
std::string fault_of_host(std::string_view entry) {
  if (entry.find("://") != std::string_view::npos || entry.find('/') != std::string_view::npos)
    return "write the name of a host without scheme and path, like example.com";
  const Entry parts = split(entry);
  const bool has_port = parts.host.size() != entry.size();
  if (parts.host.empty() || parts.host.find_first_of(" \t@,") != std::string_view::npos)
    return "this is not the name of a host";
  if (parts.host.find('*', 1) != std::string_view::npos ||
      (parts.host.starts_with('*') && parts.host.size() > 1 && !parts.host.starts_with("*.")))
    return "a * may only be the first label, as in *.example.com";
  if (has_port && (parts.port.empty() || parts.port.size() > 5 ||
                   parts.port.find_first_not_of("0123456789") != std::string_view::npos))
    return "this is not a port";
  return "";
}

[[noreturn]] void refuse_host(const std::string& host, const std::string& fault) {
  throw Error(ErrorCode::kInvalidInput, "--picture-hosts " + host + ": " + fault);
}

PictureAddressOptions checked(PictureAddressOptions options) {
  for (std::string& host : options.hosts) {
    host = lower_case(host);
    const std::string fault = fault_of_host(host);
    if (!fault.empty()) refuse_host(host, fault);
  }
  return options;
}

}  // namespace

bool has_picture_addresses(const std::vector<Message>& messages) {
  return std::ranges::any_of(messages, [](const Message& message) {
    return std::ranges::any_of(message.parts, [](const Part& part) {
      const auto* image = std::get_if<ImagePart>(&part);
      return image != nullptr && !image->address.empty();
    });
  });
}

PictureAddresses::PictureAddresses(PictureAddressOptions options)
    : options_(checked(std::move(options))) {}

void PictureAddresses::fetch(std::vector<Message>& messages, const std::stop_token& stop) {
  if (!fetchers_.try_acquire())
    throw StatusError(503, "too many pictures are being fetched from other hosts");
  const auto give_back = [](std::counting_semaphore<>* fetchers) { fetchers->release(); };
  const std::unique_ptr<std::counting_semaphore<>, decltype(give_back)> turn(&fetchers_, give_back);
  size_t index = 0;
  for (Message& message : messages) {
    for (Part& part : message.parts) {
      auto* image = std::get_if<ImagePart>(&part);
      if (image == nullptr) continue;
      ++index;
      if (image->address.empty()) continue;
      try {
        image->bytes = bytes_of(image->address, stop);
      } catch (const Error& error) {
        throw StatusError(400, "image " + std::to_string(index) + ": " + error.what());
      }
      image->address.clear();
    }
  }
}

bool PictureAddresses::allows(std::string_view url) const {
  const std::optional<Origin> origin = registry::origin_of(url);
  return origin && std::ranges::any_of(options_.hosts, [&](const std::string& entry) {
           return matches(entry, *origin);
         });
}

std::string PictureAddresses::bytes_of(const std::string& address, const std::stop_token& stop) {
  if (options_.hosts.empty())
    throw Error(ErrorCode::kPermissionDenied,
                "image URLs are not currently supported, please use base64 encoded data instead; "
                "the server's option --picture-hosts allows hosts");
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  const auto check_time = [&] {
    if (std::chrono::steady_clock::now() > deadline)
      throw Error(ErrorCode::kIo, "the picture took too long");
  };
  std::string url = address;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    if (!allows(url))
      throw Error(ErrorCode::kPermissionDenied,
                  url.substr(0, 200) + ": the server's option --picture-hosts does not allow it");
    if (i > 0) check_time();
    std::string bytes;
    const auto take = [&](const registry::Reply& head, std::string_view piece) {
      check_time();
      if (head.status != 200) return false;
      if (piece.size() > options_.max_bytes - bytes.size())
        throw Error(ErrorCode::kTooLarge,
                    "the picture has more than " + std::to_string(options_.max_bytes) + " bytes");
      bytes += piece;
      return true;
    };
    const registry::Reply reply =
        transport().send({.url = url, .headers = {{"Accept", "image/*"}}, .on_body = take}, stop);
    if (reply.status == 200) return bytes;
    const std::string location(reply.headers.get("Location"));
    if (!is_redirect(reply.status) || location.empty())
      throw Error(ErrorCode::kNotFound,
                  url.substr(0, 200) + ": status " + std::to_string(reply.status));
    const std::optional<std::string> next = registry::resolved_url(url, location);
    if (!next) throw Error(ErrorCode::kIo, url.substr(0, 200) + ": a redirect without an address");
    url = *next;
  }
  throw Error(ErrorCode::kIo, address.substr(0, 200) + ": too many redirects");
}

registry::Transport& PictureAddresses::transport() {
  const std::scoped_lock lock(mutex_);
  if (!transport_)
    transport_ = std::make_unique<registry::Transport>(
        registry::TransportOptions{.connect_timeout = std::chrono::milliseconds{10'000},
                                   .stall_timeout = std::chrono::milliseconds{10'000},
                                   .only_public_addresses = !options_.allows_private});
  return *transport_;
}

}  // namespace billow::api

#include "registry/session.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/one_line.h"
#include "base/text.h"
#include "registry/challenge.h"
#include "registry/origin.h"
#include "registry/token.h"

namespace billow::registry {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr size_t kMaxErrorText = 500;
constexpr uint64_t kMaxTokenBytes = 64 << 10;  // of a reply with a token

std::string base_of(const store::Name& name, bool insecure, const std::string& mirror) {
  if (name.scheme == "http" && !insecure)
    throw Error(ErrorCode::kInvalidInput, "insecure protocol http");
  const std::string host =
      mirror.empty() ? (insecure ? "http://" : "https://") + name.host : mirror;
  return host + "/v2/" + name.space + "/" + name.model;
}

// Returns "registry.example:5000" for "https://registry.example:5000/v2/library/m".
std::string host_in(const std::string& base) {
  const size_t begin = base.find("://") + 3;
  return base.substr(begin, base.find('/', begin) - begin);
}

// Returns the challenges of all fields of that name.
std::vector<Challenge> challenges_in(const http::Headers& headers) {
  std::vector<Challenge> all;
  for (const http::Headers::Field& field : headers)
    if (equal_ignoring_case(field.name, "WWW-Authenticate"))
      std::ranges::move(parse_challenges(field.value), std::back_inserter(all));
  return all;
}

bool is_good(int status) { return status >= 200 && status < 300; }

// Returns whether a server may answer otherwise a little later.
bool is_temporary(int status) { return status == 408 || status == 429 || status >= 500; }

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string nonce() {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> any(0, kLetters.size() - 1);
  std::string text;
  for (int i = 0; i < 22; ++i) text += kLetters[any(random)];
  return text;
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns whether the body is an HTML page, which has no line with an error message.
bool is_page(std::string_view body) {
  const std::string begin = lower_case(trimmed(body).substr(0, 20));
  return begin.starts_with("<!doctype html") || begin.starts_with("<html");
}

std::string in_line(std::string_view text) { return one_line(text, kMaxErrorText); }

}  // namespace

std::string error_text(const Reply& reply) {
  // A longer body is not a registry's error message, and parsing it may take long.
  const bool is_short = reply.body.size() <= kMaxErrorBytes;
  const Json json = is_short ? Json::parse(reply.body, nullptr, false) : Json();
  std::string text;
  const auto add = [&](const Json& from, const char* name) {
    if (!from.is_object() || !from.contains(name) || !from[name].is_string()) return false;
    text += (text.empty() ? "" : "; ") + from[name].get<std::string>();
    return true;
  };
  if (json.is_object() && json.contains("errors") && json["errors"].is_array()) {
    for (const Json& error : json["errors"])
      if (!add(error, "message")) add(error, "code");
  }
  if (text.empty() && !add(json, "error") && !is_page(reply.body)) text = reply.body;
  text = in_line(text);
  return std::to_string(reply.status) + (text.empty() ? "" : ": " + text);
}

Session::Session(Transport& transport, const store::Name& name, SessionOptions options)
    : transport_(transport),
      base_(base_of(name, options.insecure, options.mirror)),
      host_(host_in(base_)),
      options_(std::move(options)) {}

Reply Session::send_once(Request request, const std::string& authorization,
                         const std::stop_token& stop) {
  const bool is_own = origin_of(request.url) == origin_of(base_);
  if (is_own && !authorization.empty()) request.headers.set("Authorization", authorization);
  if (!request.on_body) return transport_.send(request, stop);
  std::string refusal;
  const auto on_body = std::exchange(request.on_body, {});
  request.on_body = [&](const Reply& head, std::string_view bytes) {
    if (is_good(head.status)) return on_body(head, bytes);
    refusal += bytes.substr(0, kMaxErrorBytes - std::min(kMaxErrorBytes, refusal.size()));
    return refusal.size() < kMaxErrorBytes;
  };
  Reply reply = transport_.send(request, stop);
  reply.body = std::move(refusal);
  return reply;
}

Reply Session::send(Request request, std::stop_token stop) {
  if (request.url.starts_with('/')) request.url = base_ + request.url;
  std::string authorization;
  {
    const std::scoped_lock lock(mutex_);
    authorization = authorization_;
  }
  const bool may_repeat = !request.upload && origin_of(request.url) == origin_of(base_);
  Reply reply = send_once(request, authorization, stop);
  if (reply.status != 401 || !may_repeat) return reply;
  authorization = renewed(authorization, reply, stop);
  reply = send_once(std::move(request), authorization, stop);
  if (reply.status == 401)
    throw Error(ErrorCode::kPermissionDenied, host_ + ": unauthorized: access denied");
  return reply;
}

std::string Session::renewed(const std::string& used, const Reply& refusal,
                             const std::stop_token& stop) {
  const int n_failures = n_failures_;
  const std::scoped_lock lock(mutex_);
  if (authorization_ != used) return authorization_;  // another thread has renewed the token
  // Another thread has failed in the meantime. If each thread asked a silent token server in turn,
  // the last one would wait for long.
  if (n_failures_ != n_failures) throw Error(ErrorCode::kIo, failure_);
  try {
    authorization_ = new_authorization(refusal, stop);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo && !stop.stop_requested()) {
      failure_ = error.what();
      ++n_failures_;
    }
    throw;
  }
  return authorization_;
}

std::string Session::new_authorization(const Reply& refusal, const std::stop_token& stop) {
  const std::vector<Challenge> all = challenges_in(refusal.headers);
  const std::string login = options_.login ? options_.login() : std::string();
  const auto bearer = std::ranges::find(all, "bearer", &Challenge::scheme);
  const auto basic = std::ranges::find(all, "basic", &Challenge::scheme);
  if (bearer != all.end()) return "Bearer " + asked_token(*bearer, login, stop);
  if (basic == all.end())
    throw Error(ErrorCode::kPermissionDenied,
                host_ + ": unauthorized: the registry gives no tokens" +
                    (all.empty() ? "" : ", it wants " + in_line(all.front().scheme)) + " (" +
                    error_text(refusal) + ")");
  if (login.empty())
    throw Error(ErrorCode::kPermissionDenied,
                host_ + ": unauthorized: the registry wants a password; 'docker login " + host_ +
                    "' stores it in ~/.docker/config.json (passwords in a credential helper are "
                    "not read)");
  return "Basic " + login;
}

std::string Session::asked_token(const Challenge& challenge, const std::string& login,
                                 const std::stop_token& stop) {
  const std::string& realm = challenge.parameter("realm");
  if (!is_trusted_realm(realm, base_)) {
    const std::optional<Origin> asks = origin_of(realm);
    throw Error(ErrorCode::kPermissionDenied, "realm host \"" + in_line(asks ? asks->host : realm) +
                                                  "\" does not match original host \"" + host_ +
                                                  "\"");
  }
  const TokenRequest wanted = login.empty()
                                  ? token_request(challenge, options_.key(), nonce(), unix_time())
                                  : token_request(challenge, login);
  const Reply reply = transport_.send({.url = wanted.url,
                                       .headers = {{"Authorization", wanted.authorization}},
                                       .max_body_bytes = kMaxTokenBytes},
                                      stop);
  if (is_temporary(reply.status))
    throw Error(ErrorCode::kIo, host_ + ": the token server answered " + error_text(reply));
  if (!is_good(reply.status))
    throw Error(ErrorCode::kPermissionDenied,
                host_ + ": unauthorized: access denied (" + error_text(reply) + ")");
  return parse_token(reply.body);
}

Reply Session::follow(Request request, std::stop_token stop, std::string* final_url) {
  if (request.url.starts_with('/')) request.url = base_ + request.url;
  for (int n = 0; n <= kMaxRedirects; ++n) {
    Reply reply = send(request, stop);
    if (!is_redirect(reply.status)) {
      if (final_url != nullptr) *final_url = request.url;
      return reply;
    }
    const std::string location(reply.headers.get("Location"));
    const std::optional<std::string> next =
        location.empty() ? std::nullopt : resolved_url(request.url, location);
    if (!next)
      throw Error(ErrorCode::kIo,
                  host_ + ": the registry's redirect has no valid address: " +
                      (location.empty() ? "Location is missing" : in_line(location)));
    if (request.url.starts_with("https:") && next->starts_with("http:"))
      throw Error(ErrorCode::kIo, host_ + ": the registry redirects from https to http");
    request.url = *next;
  }
  throw Error(ErrorCode::kIo, host_ + ": the registry redirects more than " +
                                  std::to_string(kMaxRedirects) + " times");
}

}  // namespace billow::registry

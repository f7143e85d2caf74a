// Requests to one repository of a registry: the model "library/m" at registry.example. A session
// knows the repository's address, says who the user is when the registry asks, and follows
// redirects. A token or password goes to the registry alone, never to a host that the registry
// redirects to. Any thread; the Transport must outlive the session.
#pragma once

#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>

#include "registry/challenge.h"
#include "registry/identity_key.h"
#include "registry/transport.h"
#include "store/name.h"

namespace billow::registry {

// How a registry is asked.
struct SessionOptions {
  bool insecure = false;  // by http
  // Who the user is. Asked when a registry wants to know, and not before: many never do.
  std::function<IdentityKey()> key{};
  // "user:password" in base64 for registries with passwords; empty: there is none.
  std::function<std::string()> login{};
  // The address "https://HOST" that is asked in place of the name's host; empty: that host.
  std::string mirror{};
};

class Session {
 public:
  // Throws Error (kInvalidInput) for a name with "http://" without `insecure`.
  Session(Transport& transport, const store::Name& name, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // "https://registry.example/v2/library/m"
  const std::string& base() const noexcept { return base_; }

  // Sends to base() and request.url, or to request.url where it is whole, whatever the status of
  // the answer. A request that gets 401 is sent once more with a new token; one with `upload` is
  // not, as its bytes are gone: a request without a body goes before it. `on_body` gets the bodies
  // of answers with 200 to 299 alone; others are in Reply::body, up to 64 KiB.
  // Throws Error as Transport::send, and kPermissionDenied where the registry gives no token.
  Reply send(Request request, std::stop_token stop = {});

  // The same with up to 10 redirects. `final_url`, where given, is the address that answered.
  // Throws Error (kIo) for a redirect that leads nowhere, or from https to http.
  Reply follow(Request request, std::stop_token stop = {}, std::string* final_url = nullptr);

 private:
  Reply send_once(Request request, const std::string& authorization, const std::stop_token& stop);
  // The field Authorization for the next requests, where the registry has refused `used`
  // with such an answer.
  std::string renewed(const std::string& used, const Reply& refusal, const std::stop_token& stop);
  std::string asked_token(const Challenge& challenge, const std::string& login,
                          const std::stop_token& stop);

  Transport& transport_;
  const std::string host_;
  const std::string base_;
  const SessionOptions options_;
  std::mutex mutex_;  // held while a token is asked for: the others wait for it
  std::string authorization_;
};

// What is wrong, in the words of a registry's answer: the messages of {"errors":[{"message"}]}, or
// {"error":"..."}, or the beginning of a body that is no HTML; the status stands before it: "404:
// manifest unknown".
std::string error_text(const Reply& reply);

}  // namespace billow::registry

// Sends requests to one repository of a registry, such as "library/m" at registry.example. A
// session knows the repository's address, authenticates the user on demand, and follows redirects.
// It sends tokens and passwords only to the registry and its token server, never to another host
// after a redirect. Thread-safe. The Transport must outlive the session.
#pragma once

#include <atomic>
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

// Options for access to a registry.
struct SessionOptions {
  bool insecure = false;  // use http
  // Returns the user's key. Called only if a registry wants a token and `login` returns no login.
  std::function<IdentityKey()> key{};
  // Returns "user:password" in base64 for registries with passwords; empty: no login.
  std::function<std::string()> login{};
  // The address "https://HOST" that replaces the name's host. Empty: the name's host.
  std::string mirror{};
};

class Session {
 public:
  // Throws Error (kInvalidInput) if the name has "http://" and `insecure` is false.
  Session(Transport& transport, const store::Name& name, SessionOptions options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns an address such as "https://registry.example/v2/library/m".
  const std::string& base() const noexcept { return base_; }

  // Sends a request to base() + request.url, or to request.url if it is a whole URL. Returns the
  // reply whatever its status. After a 401, gets a new token and sends the request once more. A
  // request with `upload` is not sent again, because its bytes are consumed; callers send a request
  // without a body first. `on_body` receives only bodies of replies with status 200 to 299. Other
  // bodies are in Reply::body, up to 64 KiB. Throws the errors of Transport::send(). Throws
  // kPermissionDenied if the registry refuses a token or the second request, but kIo if the token
  // server fails for now (408, 429, 5xx).
  Reply send(Request request, std::stop_token stop = {});

  // Like send(), but follows up to 10 redirects. `final_url`, if not null, receives the address
  // that answered. Throws Error (kIo) if a redirect has no valid address or leads from https to
  // http.
  Reply follow(Request request, std::stop_token stop = {}, std::string* final_url = nullptr);

 private:
  Reply send_once(Request request, const std::string& authorization, const std::stop_token& stop);
  // Returns the value of the field Authorization for the next requests, after the registry has
  // refused the value `used` with the reply `refusal`.
  std::string renewed(const std::string& used, const Reply& refusal, const std::stop_token& stop);
  // Returns the value after `refusal`; asks for a token if the registry wants one.
  std::string new_authorization(const Reply& refusal, const std::stop_token& stop);
  std::string asked_token(const Challenge& challenge, const std::string& login,
                          const std::stop_token& stop);

  Transport& transport_;
  const std::string base_;
  const std::string host_;  // of base_, with its port, for messages
  const SessionOptions options_;
  std::mutex mutex_;  // held during a token request: other threads wait for it
  std::string authorization_;
  std::atomic<int> n_failures_{0};  // temporary failures of the token server
  std::string failure_;             // the last one
};

// Returns the status and the error message of a registry's reply: "404: manifest unknown". The
// message comes from {"errors":[{"message"}]} or {"error":"..."}. Otherwise it is the beginning of
// the body, unless the body is HTML.
std::string error_text(const Reply& reply);

}  // namespace billow::registry

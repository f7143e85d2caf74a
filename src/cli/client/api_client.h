// A client of a server's API: JSON requests and streams of JSON lines. Owns its connections. One
// thread sends; any thread may call cancel() and abandon().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>

#include "base/json_fwd.h"
#include "http/client.h"
#include "scheduler/environment.h"

namespace billow::cli {

// Returns the error message in the body of a response: its "error" or, if `body` is not a JSON
// object, all of it.
std::string said_by(const std::string& body);

// An error response of the server.
class ApiError : public std::runtime_error {
 public:
  // `message` is the server's message, `status` the HTTP status. If `is_stream`, what() begins with
  // the status, as for requests with streamed responses.
  ApiError(int status, std::string message, bool is_stream);
  int status() const noexcept { return status_; }
  const std::string& said() const noexcept { return said_; }

 private:
  int status_;
  std::string said_;
};

class ApiClient {
 public:
  // Sends the API key of the environment (cli/api_key.h). Throws Error (kUnsupported) for an https
  // server. `endpoint` must be one for clients
  // (Endpoint::for_clients).
  explicit ApiClient(const scheduler::Endpoint& endpoint);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  const scheduler::Endpoint& endpoint() const noexcept { return endpoint_; }
  // Throws Error if no server answers.
  void check_server();

  // The functions below throw ApiError for a status above 399, and pass on Errors of
  // http::Client::send. Return the response as JSON; null if its body is empty.
  Json get(const std::string& path);
  Json post(const std::string& path, const Json& body);
  Json remove(const std::string& path, const Json& body);
  // Returns whether `path`, to which files can be uploaded, exists on the server.
  bool has(const std::string& path);
  // Sends the JSON text `body`. Returns the response, with any status.
  http::Response exchange(const std::string& path, std::string body, const http::Headers& headers);
  // Makes the running call and all later calls fail with an Error, except stream(). After that, the
  // client cannot be used. Thread-safe.
  void abandon() noexcept;
  // Sends `n_bytes` bytes, which `read` supplies piece by piece.
  void upload(const std::string& path, uint64_t n_bytes,
              const std::function<size_t(std::span<char>)>& read);
  // Calls on_object with each object of the response; if on_object returns false, the call ends.
  // For an object {"error": ...}, throws ApiError. Returns false if cancel() ended the call.
  bool stream(const std::string& path, const Json& body,
              const std::function<bool(const Json&)>& on_object);

  // Ends the running stream() promptly or, if none runs, the next one. Thread-safe.
  void cancel() noexcept;
  // A cancel() that no stream() has used does not end the next one. REQUIRES: no stream runs.
  void forget_cancel() noexcept;

 private:
  http::Call call(http::Method method, const std::string& path, const char* accept) const;
  Json answer(const http::Call& call);
  std::shared_ptr<http::Client> begin_stream();
  void end_stream();

  scheduler::Endpoint endpoint_;
  std::unique_ptr<http::Client> client_;
  std::mutex mutex_;                         // guards the two members below
  std::shared_ptr<http::Client> streaming_;  // set while a stream runs
  bool is_cancelled_ = false;
};

}  // namespace billow::cli

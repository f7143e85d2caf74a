// The client side of a server's API: JSON requests and streams of JSON lines. Owns its connections;
// one thread sends, cancel() may come from any thread.
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

// What a refusal says: its "error", or all of it where it is something else.
std::string said_by(const std::string& body);

// An answer that is a refusal.
class ApiError : public std::runtime_error {
 public:
  // `said` is the server's text, `status` what it came with. what() has the status in front where
  // `is_stream`, as for requests whose answers are streams.
  ApiError(int status, std::string said, bool is_stream);
  int status() const noexcept { return status_; }
  const std::string& said() const noexcept { return said_; }

 private:
  int status_;
  std::string said_;
};

class ApiClient {
 public:
  // Throws Error (kUnsupported) for an https server. `endpoint` is one for clients.
  explicit ApiClient(const scheduler::Endpoint& endpoint);
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // Throws Error when no server answers.
  void check_server();

  // The calls below throw ApiError for a status above 399, and Error as http::Client::send does.
  // The answer as JSON; null where its body is empty.
  Json get(const std::string& path);
  Json post(const std::string& path, const Json& body);
  Json remove(const std::string& path, const Json& body);
  // Whether the server has what `path` names.
  bool has(const std::string& path);
  // Sends `body`, which is JSON, and gives the answer, whatever its status.
  http::Response exchange(const std::string& path, std::string body, const http::Headers& headers);
  // Ends the call that runs, unless it is a stream(), and every later one with an Error: from any
  // thread. The client is done with.
  void abandon() noexcept;
  // Sends `n_bytes` bytes that `read` gives piece by piece.
  void upload(const std::string& path, uint64_t n_bytes,
              const std::function<size_t(std::span<char>)>& read);
  // Calls on_object with each object of the answer; false ends the call there. An object
  // {"error": ...} ends it with an ApiError. A call that cancel() ended returns false.
  bool stream(const std::string& path, const Json& body,
              const std::function<bool(const Json&)>& on_object);

  // Ends the running stream() promptly, or the next one if none runs.
  void cancel() noexcept;

 private:
  http::Call call(http::Method method, const std::string& path, const char* accept) const;
  Json answer(const http::Call& call);
  std::shared_ptr<http::Client> begin_stream();
  void end_stream();

  scheduler::Endpoint endpoint_;
  std::unique_ptr<http::Client> client_;
  std::mutex mutex_;                         // guards the two below
  std::shared_ptr<http::Client> streaming_;  // while a stream runs
  bool is_cancelled_ = false;
};

}  // namespace billow::cli

// The server: connects the store, the scheduler and the APIs to HTTP, and owns them. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/options.h"

namespace billow::server {

class Server {
 public:
  // Starts to listen and serve. Preloads models in the background. Throws Error if the server
  // cannot start.
  explicit Server(Options options);
  ~Server();  // calls stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;  // 0 without TCP
  // Returns whether the server serves the web page: the option is on and the program includes the
  // page.
  bool has_web_page() const;

  // Returns whether other machines can reach the server by TCP.
  bool is_on_network() const;

  // Reports not ready and serves requests as before for `delay`. Then rejects new requests and
  // waits up to `timeout` for running ones. Returns whether all of them finished. stop() ends the
  // wait.
  bool drain(std::chrono::milliseconds delay, std::chrono::milliseconds timeout);
  // Ends all running requests and all runners.
  void stop();

  // Returns the patterns of all routes.
  std::vector<std::string> routes() const;

  // Returns a line for each reason why the server is not ready. Empty if it is ready.
  std::vector<std::string> not_ready() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace billow::server

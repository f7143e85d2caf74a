// The server: the store, the scheduler and the APIs put together behind HTTP. Owns all of it. Any
// thread.
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
  // Listens and serves from here on; what is to be preloaded is loaded meanwhile. Throws Error
  // where that is not possible.
  explicit Server(Options options);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;  // 0 without TCP
  // Whether it serves the web page: it was told to, and the program has the page.
  bool has_web_page() const;

  // Not ready any more from now on, while requests are served as before for `delay`; then new ones
  // are refused, and those that run have so long to finish. Returns whether all did. stop() ends
  // the wait.
  bool drain(std::chrono::milliseconds delay, std::chrono::milliseconds timeout);
  // Ends what runs, and all runners.
  void stop();

  // What keeps it from being ready, a line each; empty when it is.
  std::vector<std::string> not_ready() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace billow::server

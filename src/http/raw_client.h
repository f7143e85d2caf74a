// For tests: a client that sends whatever bytes it is told to, and a folder for sockets. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"
#include "http/server.h"
#include "http/socket_fd.h"

namespace billow::http {

class RawClient {
 public:
  static constexpr std::chrono::milliseconds kTimeout{60'000};

  explicit RawClient(uint16_t port);  // on 127.0.0.1
  explicit RawClient(const std::string& socket_path);
  // With a receive buffer of about so many bytes, for one that reads slowly.
  RawClient(uint16_t port, int buffer_bytes);

  bool is_connected() const { return socket_.is_open(); }
  bool send(std::string_view bytes);  // false: the connection is broken
  // The next answer; none where the connection ends before it does, or nothing comes.
  std::optional<Response> response(bool without_body = false);
  // What comes within a moment, at least one byte; "" at the end of the connection.
  std::string receive(std::chrono::milliseconds timeout = kTimeout);
  std::string receive_until(std::string_view end);  // with what came before it
  std::string receive_all();                        // until the connection ends
  // Whether the server closes the connection in time, without sending anything more.
  bool is_closed(std::chrono::milliseconds timeout = kTimeout);
  void half_close();  // sends nothing more
  void close();
  void reset();  // as if the process had died with bytes unread

 private:
  SocketFd socket_;
  std::string pending_;
};

// "GET PATH" with a Host, and nothing else.
std::string get(std::string_view path, std::string_view more_headers = {});
std::string post(std::string_view path, std::string_view body, std::string_view more_headers = {});

// Options for a server on 127.0.0.1 at a free port.
ServerOptions local_options();

// Waits until `condition` holds; false: it never did.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds timeout = RawClient::kTimeout);

// A new folder that is removed with all its files.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }

 private:
  std::string folder_;
};

}  // namespace billow::http

// For tests: a client that sends arbitrary bytes, and a folder for sockets. One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/message.h"
#include "http/server.h"
#include "http/socket_fd.h"

namespace billow::http {

class RawClient {
 public:
  static constexpr std::chrono::milliseconds kTimeout{60'000};

  explicit RawClient(uint16_t port);  // on 127.0.0.1
  explicit RawClient(const std::string& socket_path);
  // Uses a receive buffer of about `buffer_bytes`, for tests of slow readers.
  RawClient(uint16_t port, int buffer_bytes);
  explicit RawClient(SocketFd socket) : socket_(std::move(socket)) {}  // connected

  bool is_connected() const { return socket_.is_open(); }
  bool send(std::string_view bytes);  // false: the connection is broken
  // Returns the next response; nullopt if the connection ends early or the client times out.
  std::optional<Response> response(bool without_body = false);
  // Returns the next bytes, at least one; "" at the end of the connection or after the timeout.
  std::string receive(std::chrono::milliseconds timeout = kTimeout);
  std::string receive_until(std::string_view end);  // returns the bytes up to and including `end`
  std::string receive_all();                        // until the connection ends
  // Returns whether the server closes the connection in time without sending more bytes.
  bool is_closed(std::chrono::milliseconds timeout = kTimeout);
  void half_close();  // closes the sending side
  void close();
  void reset();  // resets the connection, as if the process had died with unread bytes

 private:
  SocketFd socket_;
  std::string pending_;
};

// Returns a "GET PATH" request with a Host field and `more_headers`.
std::string get(std::string_view path, std::string_view more_headers = {});
std::string post(std::string_view path, std::string_view body, std::string_view more_headers = {});

// Returns options for a server on 127.0.0.1 at a free port.
ServerOptions local_options();

// Waits until `condition` holds. Returns false after the timeout.
bool eventually(const std::function<bool()>& condition,
                std::chrono::milliseconds timeout = RawClient::kTimeout);

// A new folder. The destructor removes the folder with all its files.
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

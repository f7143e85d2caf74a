#include "http/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <filesystem>
#include <thread>
#include <utility>

#include "http/parser.h"
#include "http/socket_address.h"

namespace billow::http {
namespace {

using Clock = std::chrono::steady_clock;

SocketFd tcp_socket(uint16_t port, int buffer_bytes) {
  SocketFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (buffer_bytes > 0) {
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket.reset();
  }
  return socket;
}

}  // namespace

RawClient::RawClient(uint16_t port) : socket_(tcp_socket(port, 0)) {}

RawClient::RawClient(uint16_t port, int buffer_bytes) : socket_(tcp_socket(port, buffer_bytes)) {}

RawClient::RawClient(const std::string& socket_path)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = unix_address(socket_path);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    socket_.reset();
  }
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string RawClient::receive(std::chrono::milliseconds timeout) {
  if (!pending_.empty()) return std::exchange(pending_, {});
  pollfd polled{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return {};
  std::string bytes(64 << 10, '\0');
  const ssize_t n = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::optional<Response> RawClient::response(bool without_body) {
  ResponseParser parser(1 << 20, without_body);
  Response response;
  std::string bytes;
  while (!parser.done()) {
    const std::string more = receive();
    if (more.empty()) parser.put_eof();
    bytes += more;
    while (!parser.done() && parser.failure() == nullptr) {
      const size_t used = parser.put(bytes);
      bytes.erase(0, used);
      if (used == 0) break;
    }
    if (parser.failure() != nullptr) return std::nullopt;
  }
  pending_ = std::move(bytes);
  response.status = parser.head().status;
  response.content_type = parser.head().headers.get("Content-Type");
  response.headers = parser.head().headers;
  response.body = parser.take_body();
  return response;
}

std::string RawClient::receive_until(std::string_view end) {
  std::string bytes;
  for (;;) {
    const size_t found = bytes.find(end);
    if (found != std::string::npos) {
      pending_ = bytes.substr(found + end.size());
      return bytes.substr(0, found + end.size());
    }
    const std::string more = receive();
    if (more.empty()) return bytes;
    bytes += more;
  }
}

std::string RawClient::receive_all() {
  std::string bytes;
  for (;;) {
    const std::string more = receive();
    if (more.empty()) return bytes;
    bytes += more;
  }
}

bool RawClient::is_closed(std::chrono::milliseconds timeout) {
  if (!pending_.empty()) return false;
  pollfd polled{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return false;
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, 0) <= 0;
}

void RawClient::half_close() { ::shutdown(socket_.get(), SHUT_WR); }

void RawClient::close() { socket_.reset(); }

void RawClient::reset() {
  const linger hard_reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard_reset, sizeof hard_reset);
  socket_.reset();
}

std::string get(std::string_view path, std::string_view more_headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
         std::string(more_headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view more_headers) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more_headers) + "\r\n" + std::string(body);
}

ServerOptions local_options() {
  ServerOptions options;
  options.host = "127.0.0.1";
  return options;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!condition()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TempFolder::TempFolder() {
  std::string name = std::filesystem::temp_directory_path() / "billow-http-XXXXXX";
  if (::mkdtemp(name.data()) != nullptr) folder_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace billow::http

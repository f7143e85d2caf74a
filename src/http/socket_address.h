// Addresses of sockets, as the system wants them and as people read them. Pure functions.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace billow::http {

// "127.0.0.1:80", "[::1]:80", or "unix".
std::string address_text(const sockaddr& address);

// The address of a Unix socket. Throws Error where the path is too long for one.
sockaddr_un unix_address(const std::string& path);

}  // namespace billow::http

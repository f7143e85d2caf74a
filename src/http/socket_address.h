// Socket addresses as system structs and as text. Pure functions.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace billow::http {

// Returns "127.0.0.1:80", "[::1]:80" or "unix".
std::string address_text(const sockaddr& address);

// Returns the address of a Unix socket. Throws Error if the path is too long.
sockaddr_un unix_address(const std::string& path);

}  // namespace billow::http

// Access rules of the server. CORS limits web pages by their origin. The host check limits the host
// names of requests to a server on a loopback address, against DNS rebinding. Pure functions;
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace billow::http {

// The kind of address at which a request arrived.
enum class BindKind {
  kLoopback,    // an address that only this machine can reach
  kNetwork,     // any other address
  kUnixSocket,  // file permissions control who may connect
};

// The origins of web pages that may use the server. Case is ignored.
class AllowedOrigins {
 public:
  // Allows the comma-separated entries of `list` and the defaults. The defaults are this machine
  // under its usual names with any port, and the schemes of desktop applications. An entry is "*"
  // or scheme://host[:port] with at most one '*'. A '*' after the last ':' matches any port. Throws
  // Error (kInvalidInput) that names the first malformed entry.
  explicit AllowedOrigins(std::string_view list = {});

  bool allows_all() const noexcept { return allows_all_; }
  bool allows(std::string_view origin) const;

 private:
  struct Entry {
    std::string before;  // the text before the '*', or the whole entry
    std::string after{};
    enum class Kind { kExact, kAnyPort, kAnyText } kind = Kind::kExact;
  };
  void add(std::string_view text);
  static bool matches(const Entry& entry, std::string_view origin);

  std::vector<Entry> entries_;
  bool allows_all_ = false;
};

// The names and addresses of this machine.
struct MachineNames {
  std::string host_name;
  std::vector<std::string> addresses;  // of its network interfaces, in numeric form
};

// Returns the current names from the system. Names that the system does not return are left out.
MachineNames machine_names();

// Returns whether a server on a loopback address accepts this `Host` field. It accepts an empty
// field; a loopback, private or unspecified address; an address of this machine; localhost; the
// machine's name; and names that end in .localhost, .local or .internal.
bool is_local_host(std::string_view host, const MachineNames& machine);

struct Verdict {
  std::string refusal;             // why the request is refused; empty if it is allowed
  int status = 403;                // of the refusal
  std::optional<Response> answer;  // a complete response, which the handler does not see
  Headers headers;                 // header fields for any response to the request
  std::string user;                // for Request::user
};

// Checks CORS first, then the host if the server is bound to a loopback address.
Verdict check_access(const AllowedOrigins& origins, const MachineNames& machine, BindKind bind,
                     const Request& request);

}  // namespace billow::http

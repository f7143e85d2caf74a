// Who may talk to the server: web pages by their origin (CORS), and the names by which a server
// that only this machine can reach may be called (against DNS rebinding). Pure functions over
// plain values; any thread may call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace billow::http {

// Where a request came in.
enum class BindKind {
  kLoopback,    // an address that only this machine reaches
  kNetwork,     // any other address
  kUnixSocket,  // the file system says who may connect
};

// The origins that may ask, compared without regard to case.
class AllowedOrigins {
 public:
  // The entries of `list`, separated by commas, and then what is always allowed: this machine under
  // its usual names with any port, and the schemes of desktop applications. An entry is "*", or
  // scheme://host[:port] with at most one '*' in it; a '*' behind a last ':' stands for a port.
  // Throws Error (kInvalidInput) naming the entry that is neither.
  explicit AllowedOrigins(std::string_view list = {});

  bool allows_all() const noexcept { return allows_all_; }
  bool allows(std::string_view origin) const;

 private:
  struct Entry {
    std::string before;  // the '*', or all of it
    std::string after{};
    enum class Kind { kExact, kAnyPort, kAnyText } kind = Kind::kExact;
  };
  void add(std::string_view text);
  static bool matches(const Entry& entry, std::string_view origin);

  std::vector<Entry> entries_;
  bool allows_all_ = false;
};

// What this machine is called.
struct MachineNames {
  std::string host_name;
  std::vector<std::string> addresses;  // of its network interfaces, in numbers
};

// As the system knows it now. What cannot be found out is left out.
MachineNames machine_names();

// Whether a `Host` field may be used with a server on a loopback address: nothing; a loopback,
// private or unspecified address or one of this machine; localhost, the machine's name, or a name
// ending in .localhost, .local or .internal.
bool is_local_host(std::string_view host, const MachineNames& machine);

struct Verdict {
  std::string refusal;             // why the request gets 403; empty: it does not
  std::optional<Response> answer;  // it is answered already
  Headers headers;                 // for the answer of whoever handles the request
};

// CORS first, then the host check where the server is bound to a loopback address.
Verdict check_access(const AllowedOrigins& origins, const MachineNames& machine, BindKind bind,
                     const Request& request);

}  // namespace billow::http

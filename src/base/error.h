// The only exception type. A function throws it if a request or a load cannot go on. The message is
// one line that says what is wrong, in which input, and what to do. Bugs in Billow are CHECKs
// (check.h). Expected outcomes are return values.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace billow {

enum class ErrorCode {
  kInvalidInput,      // a malformed file, template, option or request
  kNotFound,          // a file or model that does not exist
  kPermissionDenied,  // a file that may not be read or written
  kUnsupported,       // well-formed, but of an unsupported kind (architecture, weight format)
  kTooLarge,          // over a limit: a prompt longer than its context, a template over its limits
  kOutOfMemory,       // an allocation failed
  kIo,                // the system failed to read, write or map
};

// Returns a machine-readable name: "invalid_input", "not_found" and so on.
std::string_view error_code_name(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// Returns an Error for a failed system call on `path`. `error_number` is an errno value; it selects
// the code and the text.
Error system_error(const std::string& what, const std::string& path, int error_number);

}  // namespace billow

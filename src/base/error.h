// The one exception type: thrown when a request or a load cannot go on. The message is one line
// that says what is wrong, in which input, and what to do. Bugs of our own are CHECKs (check.h);
// expected outcomes are return values.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace billow {

enum class ErrorCode {
  kInvalidInput,      // a malformed file, template, option or request
  kNotFound,          // a file or model that is not there
  kPermissionDenied,  // a file that may not be read or written
  kUnsupported,       // well-formed, but of a kind that Billow does not know (architecture, weight
                      // format)
  kTooLarge,          // does not fit: a prompt into its context, a template into its limits
  kOutOfMemory,       // memory could not be had
  kIo,                // the system failed to read, write or map
};

// "invalid_input", "not_found" and so on, for machines.
std::string_view error_code_name(ErrorCode code) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// An Error for a failed system call on `path`, its code and words from `error_number` (an errno
// value).
Error system_error(const std::string& what, const std::string& path, int error_number);

}  // namespace billow

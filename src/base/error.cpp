#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace billow {

std::string_view error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kTooLarge:
      return "too_large";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kIo:
      break;
  }
  return "io";
}

Error system_error(const std::string& what, const std::string& path, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR || error_number == ENAMETOOLONG)
    code = ErrorCode::kNotFound;
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS)
    code = ErrorCode::kPermissionDenied;
  if (error_number == ENOMEM) code = ErrorCode::kOutOfMemory;
  return {code, what + " " + path + ": " + std::strerror(error_number)};
}

}  // namespace billow

#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace billow {

Error system_error(const std::string& what, const std::string& path, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT || error_number == ENOTDIR) code = ErrorCode::kNotFound;
  if (error_number == EACCES || error_number == EPERM) code = ErrorCode::kPermissionDenied;
  if (error_number == ENOMEM) code = ErrorCode::kOutOfMemory;
  return {code, what + " " + path + ": " + std::strerror(error_number)};
}

}  // namespace billow

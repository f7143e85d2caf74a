#include "http/status.h"

namespace billow::http {

int status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
    case ErrorCode::kTooLarge:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kIo:
      break;
  }
  return 500;
}

}  // namespace billow::http

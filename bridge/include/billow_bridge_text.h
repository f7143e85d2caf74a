// A text of the bridge for C++, and the error code of a status.
#pragma once

#include <string_view>

#include "base/error.h"
#include "billow_bridge.h"

namespace billow {

// Frees the text in its destructor.
struct BridgeText {
  billow_text raw{nullptr, 0};
  BridgeText() = default;
  BridgeText(const BridgeText&) = delete;
  BridgeText& operator=(const BridgeText&) = delete;
  ~BridgeText() { billow_text_free(&raw); }
  std::string_view view() const noexcept { return {raw.data, raw.n_bytes}; }
};

// Returns the error code of a status. REQUIRES: status is not BILLOW_OK.
inline ErrorCode bridge_error_code(billow_status status) noexcept {
  switch (status) {
    case BILLOW_TOO_LARGE:
      return ErrorCode::kTooLarge;
    case BILLOW_FAILED:
      return ErrorCode::kOutOfMemory;
    case BILLOW_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInvalidInput;
  }
}

}  // namespace billow

// Maps Errors to HTTP statuses, and defines an error with its own status. Thread-safe.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.h"

namespace billow::http {

// The error text with which a draining server refuses or cancels a request; the status is 503.
inline constexpr std::string_view kShuttingDown = "the server is shutting down";

// Returns 400 for errors in the request, 404, 403, and 500 for errors of the server.
int status_of(ErrorCode code) noexcept;

// A handler throws this error if the protocol defines the status. The server answers with its
// status and text.
class StatusError : public std::runtime_error {
 public:
  StatusError(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

}  // namespace billow::http

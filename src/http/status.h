// Which status of HTTP an Error becomes, and an error that has a status of its own. Any thread may
// call.
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"

namespace billow::http {

// 400 for what is wrong with a request, 404, 403, and 500 for what is wrong here.
int status_of(ErrorCode code) noexcept;

// What a handler throws where the status is part of the protocol. The server answers with both.
class StatusError : public std::runtime_error {
 public:
  StatusError(int status, const std::string& text) : std::runtime_error(text), status_(status) {}
  int status() const noexcept { return status_; }

 private:
  int status_;
};

}  // namespace billow::http

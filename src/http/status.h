// Which status of HTTP an Error becomes. Any thread may call.
#pragma once

#include "base/error.h"

namespace billow::http {

// 400 for what is wrong with a request, 404, 403, and 500 for what is wrong here.
int status_of(ErrorCode code) noexcept;

}  // namespace billow::http

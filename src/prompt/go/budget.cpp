#include "prompt/go/budget.h"

#include "base/error.h"

namespace billow::prompt::go {

void Budget::spend_steps(uint64_t n_steps) {
  if (n_steps > n_steps_) {
    throw Error(ErrorCode::kTooLarge, "template: rendering takes more steps than are allowed");
  }
  n_steps_ -= n_steps;
}

void Budget::spend_bytes(uint64_t n_bytes) {
  if (n_bytes > n_bytes_) {
    throw Error(ErrorCode::kTooLarge, "template: rendering makes more text than is allowed");
  }
  n_bytes_ -= n_bytes;
}

}  // namespace billow::prompt::go

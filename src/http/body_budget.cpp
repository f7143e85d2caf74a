#include "http/body_budget.h"

namespace billow::http {

bool BodyBudget::Reservation::grow_to(uint64_t n_body_bytes) {
  if (!budget_ || n_body_bytes <= kFreeBodyBytes || n_body_bytes <= n_bytes_) return true;
  const uint64_t n_more = n_body_bytes - n_bytes_;
  uint64_t n_used = budget_->n_used_bytes_;
  do {
    if (n_more > budget_->max_bytes_ || n_used > budget_->max_bytes_ - n_more) return false;
  } while (!budget_->n_used_bytes_.compare_exchange_weak(n_used, n_used + n_more));
  n_bytes_ = n_body_bytes;
  return true;
}

}  // namespace billow::http

// The memory that the bodies of all requests may have together while they are read and decoded.
// Nobody waits for it: a body that would pass the bound is refused, and what it had is free for the
// others, so some body always comes to its end. Any thread may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace billow::http {

// Bodies up to this size are free, so small requests pass while large ones wait.
inline constexpr uint64_t kFreeBodyBytes = 64 << 10;

class BodyBudget {
 public:
  explicit BodyBudget(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  // The share of one body, given back at the end of its life. The budget outlives it. One thread at
  // a time.
  class Reservation {
   public:
    Reservation() = default;
    explicit Reservation(BodyBudget& budget) : budget_(&budget) {}
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          n_bytes_(std::exchange(other.n_bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(n_bytes_, other.n_bytes_);
      return *this;
    }
    ~Reservation() {
      if (budget_) budget_->n_used_bytes_ -= n_bytes_;
    }

    // For a body that has grown to `n_body_bytes`. False, and the share is as it was, where the
    // budget has no room for it.
    [[nodiscard]] bool grow_to(uint64_t n_body_bytes);

   private:
    BodyBudget* budget_ = nullptr;  // null: of no body
    uint64_t n_bytes_ = 0;
  };

  uint64_t max_bytes() const noexcept { return max_bytes_; }
  uint64_t n_used_bytes() const noexcept { return n_used_bytes_; }

 private:
  const uint64_t max_bytes_;
  std::atomic<uint64_t> n_used_bytes_{0};
};

// The body of a request, and its share of the budget: whoever has it decodes it and lets it go.
struct Body {
  std::string text;
  BodyBudget::Reservation reservation{};
};

}  // namespace billow::http

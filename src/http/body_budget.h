// Limits the memory of all request bodies while they are read and decoded. Bodies never wait for
// memory. A body that would exceed the limit is refused and its memory is freed for others, so some
// body always completes. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace billow::http {

// Bodies up to this size do not count, so that small requests pass while the budget is full.
inline constexpr uint64_t kFreeBodyBytes = 64 << 10;

class BodyBudget {
 public:
  explicit BodyBudget(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  BodyBudget(const BodyBudget&) = delete;
  BodyBudget& operator=(const BodyBudget&) = delete;

  // The memory reserved for one body; the destructor releases it. The budget must outlive the
  // reservation. One thread at a time.
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

    // Grows the reservation for a body of `n_body_bytes`. If the budget has no room, returns false
    // and changes nothing.
    [[nodiscard]] bool grow_to(uint64_t n_body_bytes);

   private:
    BodyBudget* budget_ = nullptr;  // null: not limited by a budget
    uint64_t n_bytes_ = 0;
  };

  uint64_t max_bytes() const noexcept { return max_bytes_; }
  uint64_t n_used_bytes() const noexcept { return n_used_bytes_; }

 private:
  const uint64_t max_bytes_;
  std::atomic<uint64_t> n_used_bytes_{0};
};

// The body of a request with its reservation. The owner decodes the body and then destroys it.
struct Body {
  std::string text;
  BodyBudget::Reservation reservation{};
};

}  // namespace billow::http

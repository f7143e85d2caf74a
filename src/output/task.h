// Coroutines that wait for more text of an answer. The code of a reader can assume that all text is
// there. If text is missing, the whole stack of readers waits until more text arrives.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

namespace billow::output {

// Readers that wait for one another; the last one runs.
using TaskStack = std::vector<std::coroutine_handle<>>;

// A reader that returns a T to the reader that awaits it. Owns its frame. Starts when another
// reader awaits it, or when it is put on a stack.
template <typename T>
class [[nodiscard]] Task {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): coroutines require this name
  class promise_type {
   public:
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    auto final_suspend() const noexcept {
      struct Leave {
        TaskStack* stack;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<>) const noexcept { stack->pop_back(); }
        void await_resume() const noexcept {}
      };
      return Leave{stack};
    }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() noexcept { error = std::current_exception(); }

    TaskStack* stack = nullptr;
    std::optional<T> value{};
    std::exception_ptr error{};
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (frame_) frame_.destroy();
  }

  void put_on(TaskStack& stack) {
    frame_.promise().stack = &stack;
    stack.push_back(frame_);
  }
  // REQUIRES: the reader has returned. Rethrows an exception of the reader.
  T result() {
    if (frame_.promise().error) std::rethrow_exception(frame_.promise().error);
    return std::move(*frame_.promise().value);
  }

  // The interface for co_await.
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  void await_suspend(std::coroutine_handle<Promise> parent) {
    put_on(*parent.promise().stack);
  }
  T await_resume() { return result(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

}  // namespace billow::output

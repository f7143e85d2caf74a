// Makes memory resident before it is written, on a thread that the object owns. On some machines
// the system needs milliseconds for a huge page, and an answer would pause that long. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

namespace billow::kv {

class Populator {
 public:
  Populator() = default;
  ~Populator();
  Populator(const Populator&) = delete;
  Populator& operator=(const Populator&) = delete;

  // Returns immediately. A new request replaces one that has not started. If a request comes too
  // late, the writer of the memory waits for the system; there is no other effect.
  void populate(std::span<std::byte> memory);
  // Waits until no request is queued or running.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::span<std::byte>> wanted_;
  bool busy_ = false;
  bool ends_ = false;
  std::thread thread_;  // started by the first request
};

}  // namespace billow::kv

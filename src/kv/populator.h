// Makes memory resident before it is written to, on a thread of its own: a huge page takes the
// system milliseconds on some machines, which an answer would pause for. Any thread.
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

  // Returns at once. A request that finds another one waiting takes its place: who comes too late
  // for its memory waits for the system, nothing else happens.
  void populate(std::span<std::byte> memory);
  // Returns when nothing is waiting or under way.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::span<std::byte>> wanted_;
  bool busy_ = false;
  bool ends_ = false;
  std::thread thread_;  // from the first request on
};

}  // namespace billow::kv

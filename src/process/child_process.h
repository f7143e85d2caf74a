// A child process whose standard error goes to the log of this process. The object owns the child:
// it kills and reaps the child and leaves no zombie. With `with-parent` in its command, the child
// dies with the thread that created the object. Such a thread must outlive the object. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace billow::process {

struct ChildOptions {
  std::vector<std::string> command;  // a path and its arguments
  std::string name;                  // prefix of each line in the log
  // Runs once after the child has ended, on another thread, before end() returns. how_it_ended()
  // then reports how.
  std::function<void()> on_end{};
  // Receives each line of the child's standard error instead of the log, on another thread. Returns
  // the cause of failure that the line reports, or an empty string. how_it_ended() reports the last
  // cause if the exit status is not 0.
  std::function<std::string(std::string_view line)> on_line{};
};

class ChildProcess {
 public:
  // Starts the child process with the standard file descriptors only and with default signal
  // handling. Throws Error.
  explicit ChildProcess(ChildOptions options);
  ~ChildProcess();  // end(zero)
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const noexcept { return pid_; }
  // Returns "signal 9 (Killed)" or "exit status 1: last error of its log". Empty while the child
  // runs.
  std::string how_it_ended() const;
  // Waits until `on_line` or the log has received all that the child has written so far, or for
  // `timeout`.
  void wait_for_log(std::chrono::milliseconds timeout) const;
  // Sends SIGTERM, waits up to `timeout`, then sends SIGKILL. Returns when the child has ended. If
  // `timeout` is 0, sends only SIGKILL.
  void end(std::chrono::milliseconds timeout);

 private:
  void send(int signal) const;  // `mutex_` is held
  void watch();
  void forward(std::string_view line);
  void reap();

  const ChildOptions options_;
  pid_t pid_ = -1;
  int log_ = -1;  // read end of the child's standard error; the watching thread closes it
  std::atomic<bool> is_reading_{false};  // the watching thread reads or forwards bytes of the log
  std::string last_line_;                // used by the watching thread
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::string how_it_ended_;
  bool has_ended_ = false;  // on_end() has returned, too
  std::thread watcher_;
};

}  // namespace billow::process

// A process of ours with its standard error in our log. It ends with the thread that made it, so
// that thread must live as long. Owns the process: never a zombie, never left behind. Any thread
// may call.
#pragma once

#include <sys/types.h>

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
  std::string name;                  // in front of each line of its log
  // Called once when it has ended, from another thread, before end() returns.
  std::function<void()> on_end{};
  // Takes each line of its standard error in place of our log, on another thread, and returns what
  // the line tells of the end of a process that ends behind it, or nothing.
  std::function<std::string(std::string_view line)> on_line{};
};

class ChildProcess {
 public:
  // Starts it, with no other files than the standard ones, and with signals as they are by default.
  // Throws Error.
  explicit ChildProcess(ChildOptions options);
  ~ChildProcess();  // end(zero)
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const noexcept { return pid_; }
  // "signal 9 (Killed)", "exit status 1: last line of its log"; empty while it lives.
  std::string how_it_ended() const;
  // Asks it to end, kills it after `patience`, and returns when it is gone.
  void end(std::chrono::milliseconds timeout);

 private:
  void send(int signal) const;  // `mutex_` is held
  void watch();
  void forward(std::string_view line);
  void reap();

  const ChildOptions options_;
  pid_t pid_ = -1;
  int log_ = -1;           // where its standard error comes out; of the watching thread
  std::string last_line_;  // the same
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::string how_it_ended_;
  std::thread watcher_;
};

}  // namespace billow::process

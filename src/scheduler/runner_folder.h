// A folder for the sockets of one server's runners, for its user only: removed with its owner, or
// by the next server where its owner died. One thread.
#pragma once

#include <string>

namespace billow::scheduler {

class RunnerFolder {
 public:
  // In `parent`; empty: where the user's sockets belong (XDG_RUNTIME_DIR), else the folder for
  // temporary files. Throws Error.
  explicit RunnerFolder(const std::string& parent = {});
  ~RunnerFolder();
  RunnerFolder(const RunnerFolder&) = delete;
  RunnerFolder& operator=(const RunnerFolder&) = delete;

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int lock_ = -1;  // held as long as the folder is in use
};

}  // namespace billow::scheduler

// A folder for the sockets of one server's runners, accessible by its user only. Its owner locks
// and removes it. If the owner crashed, the next server removes it. Programs that clean the folder
// for temporary files respect the lock, too. One thread.
#pragma once

#include <string>

namespace billow::scheduler {

class RunnerFolder {
 public:
  // Creates the folder in `parent`. If that is empty, uses XDG_RUNTIME_DIR, else the folder for
  // temporary files. Throws Error.
  explicit RunnerFolder(const std::string& parent = {});
  ~RunnerFolder();
  RunnerFolder(const RunnerFolder&) = delete;
  RunnerFolder& operator=(const RunnerFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  // Returns false if somebody else has removed the folder. A logout can remove XDG_RUNTIME_DIR, for
  // example.
  bool exists() const;

 private:
  std::string path_;
  int lock_ = -1;  // the folder itself, locked while it is in use
};

}  // namespace billow::scheduler

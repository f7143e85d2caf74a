// For tests: a folder with test versions of files in /proc and /sys.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace billow::cpu {

class SampleMachine {
 public:
  SampleMachine()
      : root_((std::filesystem::temp_directory_path() / "billow-machine-").string() +
              std::to_string(::getpid())) {
    std::filesystem::remove_all(root_);
  }
  ~SampleMachine() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  SampleMachine(const SampleMachine&) = delete;
  SampleMachine& operator=(const SampleMachine&) = delete;

  // Replaces the content of a file.
  void add(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace billow::cpu

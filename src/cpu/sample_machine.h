// For tests: a folder with test versions of files in /proc and /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/test_folder.h"

namespace billow::cpu {

class SampleMachine {
 public:
  // Creates a file, or replaces its content.
  void add(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& root() const { return folder_.path(); }

 private:
  TestFolder folder_;
};

}  // namespace billow::cpu

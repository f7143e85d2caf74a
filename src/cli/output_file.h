// Where a command puts the file that it makes. One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/atomic_file.h"

namespace billow::cli {

inline constexpr std::string_view kStandardOutput = "-";

// A path, at which the file appears whole, or standard output. Throws Error (kIo).
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) {
    if (path != kStandardOutput) file_.emplace(path);
  }
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::optional<gguf::AtomicFile> file_;
};

}  // namespace billow::cli

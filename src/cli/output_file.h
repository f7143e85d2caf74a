// The output file of a command. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gguf/atomic_file.h"

namespace billow::cli {

inline constexpr std::string_view kStandardOutput = "-";

// Writes to a path or to standard output. The file appears at its path on commit(), complete.
// Functions throw Error (kIo).
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

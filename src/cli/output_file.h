// The output file of a command. Not thread-safe, except for free functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/atomic_file.h"
#include "gguf/file.h"

namespace billow::cli {

inline constexpr std::string_view kStandardOutput = "-";

struct ModelOptions;

// Throws Error (kInvalidInput) if `output` is one of the files that the command reads. Empty paths
// are ignored.
void refuse_to_replace(const std::string& output, std::span<const std::string> inputs);

// Returns the files that a command with an engine reads: all parts of the model, the adapters and
// the draft model.
std::vector<std::string> files_read(const ModelOptions& options, const gguf::File& model);

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

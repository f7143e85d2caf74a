#include "cli/output_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "cli/engine_options.h"
#include "gguf/split.h"

namespace billow::cli {

void refuse_to_replace(const std::string& output, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(input, output, ignored)) continue;
    throw Error(ErrorCode::kInvalidInput, output + " is part of the input; write to another file");
  }
}

std::vector<std::string> files_read(const ModelOptions& options, const gguf::File& model) {
  const gguf::SplitKeys keys = {.number = 0, .count = model.n_files(), .n_tensors = {}};
  std::vector<std::string> files = gguf::sibling_paths(keys, model.path());
  files.push_back(model.path());
  files.push_back(options.draft);
  for (const engine::AdapterFile& adapter : options.adapter_files()) files.push_back(adapter.path);
  return files;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (file_) return file_->write(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
    throw system_error("cannot write", "standard output", errno);
}

void OutputFile::commit() {
  if (file_) return file_->commit();
  if (std::fflush(stdout) != 0) throw system_error("cannot write", "standard output", errno);
}

}  // namespace billow::cli

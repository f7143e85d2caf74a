#include "cli/output_file.h"

#include <cerrno>
#include <cstdio>

#include "base/error.h"

namespace billow::cli {

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

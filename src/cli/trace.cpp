#include "cli/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"

namespace billow::cli {

Trace::Trace(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "we")) {
  if (!file_) throw system_error("cannot write trace", path_, errno);
  statm_ = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  std::fputs(
      "n,seconds,held,rung,kv_in_use_bytes,kv_granted_bytes,accounted_bytes,resident_bytes\n",
      file_.get());
}

Trace::~Trace() {
  if (statm_ >= 0) ::close(statm_);
}

void Trace::add(const TraceRow& row) {
  std::fprintf(file_.get(), "%zu,%.6f,%zu,%zu,%zu,%zu,%zu,%zu\n", ++n_rows_,
               std::chrono::duration<double>(row.time).count(), row.n_held, row.rung,
               row.memory.kv_in_use, row.memory.kv_granted, row.memory.accounted(),
               resident_bytes());
}

void Trace::close() {
  const bool failed = std::ferror(file_.get()) != 0;
  if (std::fclose(file_.release()) != 0) throw system_error("cannot write trace", path_, errno);
  if (failed) throw system_error("cannot write trace", path_, EIO);  // of an earlier line
}

size_t Trace::resident_bytes() const noexcept {
  char text[128];
  const ssize_t n = ::pread(statm_, text, sizeof(text) - 1, 0);
  if (n <= 0) return 0;
  text[n] = '\0';
  char* second = nullptr;
  std::strtoull(text, &second, 10);  // skips the size; the resident pages follow
  return static_cast<size_t>(std::strtoull(second, nullptr, 10)) *
         static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace billow::cli

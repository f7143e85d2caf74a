// Writes the file of --trace: a line of CSV for each token of an answer. Plots and tests of pauses
// and memory use it. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include "engine/engine.h"

namespace billow::cli {

struct TraceRow {
  std::chrono::nanoseconds time{};  // since the first token
  size_t n_held = 0;                // evaluated tokens in the context
  size_t rung = 0;
  engine::MemoryUse memory = {};  // no KV for the last token: its memory has been freed
};

class Trace {
 public:
  // Creates the file and writes the header line. Throws Error on failure.
  explicit Trace(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Appends a line with the row, the token's number (from 1) and the resident memory.
  void add(const TraceRow& row);
  // Closes the file. Throws Error if a line could not be written.
  void close();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  size_t resident_bytes() const noexcept;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  int statm_ = -1;  // /proc/self/statm, kept open: read once per token
  size_t n_rows_ = 0;
};

}  // namespace billow::cli

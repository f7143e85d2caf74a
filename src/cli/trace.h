// --trace: a line of CSV for each token of an answer, for plots and for tests of pauses and memory.
// One thread.
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
  engine::MemoryUse memory = {};  // no KV behind the last token: its memory has been given back
};

class Trace {
 public:
  // Makes the file, with the header line. Throws Error where it cannot.
  explicit Trace(const std::string& path);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Adds a line, with the number of the token, from 1, and what memory is resident now.
  void add(const TraceRow& row);
  // Throws Error where a line could not be written.
  void close();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  size_t resident_bytes() const noexcept;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  int statm_ = -1;  // kept open: one read for each token
  size_t n_rows_ = 0;
};

}  // namespace billow::cli

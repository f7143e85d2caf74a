// What a command tells the program that has started it: lines of JSON on standard error.
//   {"completed":N,"total":N}  at most one for each per cent
//   {"note":"..."}             what the user should know
//   {"error":"...","code":"invalid_input"}  why it ends with status 1
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json_fwd.h"

namespace billow::cli {

class ProgressLines {
 public:
  void show(uint64_t n_done, uint64_t n_total);
  static void note(const std::string& text);
  // Runs it; an Error becomes a line and CLI::RuntimeError.
  static void with_errors(const std::function<void()>& run);

 private:
  uint64_t shown_ = UINT64_MAX;  // per cent
};

}  // namespace billow::cli

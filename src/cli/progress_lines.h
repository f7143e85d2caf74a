// Reports of a command to the program that started it: lines of JSON on standard error.
//   {"completed":N,"total":N}               at most one per percent
//   {"note":"..."}                          information for the user
//   {"error":"...","code":"invalid_input"}  the reason for exit status 1
// Not thread-safe.
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
  // Calls `run`. Prints an Error as a line, then throws CLI::RuntimeError.
  static void with_errors(const std::function<void()>& run);

 private:
  uint64_t shown_ = UINT64_MAX;  // last reported percentage
};

}  // namespace billow::cli

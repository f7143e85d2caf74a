// Token rates of several benchmark runs.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/json_fwd.h"

namespace billow::cli {

struct Rates {
  std::vector<double> runs;  // tokens per second; not empty

  double median() const;
  double min() const;
  double max() const;
  Json json() const;
};

// Calls run(0) to warm up, then run(1) to run(n_runs), and returns the rates of the latter. `run`
// returns tokens per second. Shows progress, with the name `what`, if standard error is a terminal.
Rates measure_rates(const char* what, size_t n_runs, const std::function<double(unsigned)>& run);

}  // namespace billow::cli

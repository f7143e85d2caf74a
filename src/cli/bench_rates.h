// Tokens a second of several runs.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/json_fwd.h"

namespace billow::cli {

struct Rates {
  std::vector<double> runs;  // not empty

  double median() const;
  double min() const;
  double max() const;
  Json json() const;
};

// n_runs of run(seed), after one with seed 0 that only warms up; a terminal sees the progress of
// `what`.
Rates measure_rates(const char* what, size_t n_runs, const std::function<double(unsigned)>& run);

}  // namespace billow::cli

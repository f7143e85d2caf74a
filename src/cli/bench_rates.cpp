#include "cli/bench_rates.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/json.h"
#include "cli/client/progress_text.h"
#include "cli/terminal_line.h"

namespace billow::cli {

double Rates::median() const {
  std::vector<double> sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double Rates::min() const { return *std::min_element(runs.begin(), runs.end()); }
double Rates::max() const { return *std::max_element(runs.begin(), runs.end()); }

Json Rates::json() const {
  return {{"tokens_per_second", median()}, {"min", min()}, {"max", max()}, {"runs", runs}};
}

Rates measure_rates(const char* what, size_t n_runs, const std::function<double(unsigned)>& run) {
  const bool progress = is_smart_terminal(STDERR_FILENO);
  Rates rates;
  run(0u);
  for (size_t i = 0; i < n_runs; ++i) {
    rates.runs.push_back(run(static_cast<unsigned>(i + 1)));
    if (progress)
      draw_line(cut_to_columns(
          fmt::format("{}: run {} of {}, {:.1f} tokens/s", what, i + 1, n_runs, rates.runs.back()),
          progress_columns()));
  }
  if (progress) erase_line();
  return rates;
}

}  // namespace billow::cli

// Metrics that one process collects and another shows. The kind of a name never changes. Plain
// data, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace billow {

// Counts observed values per bucket.
class Histogram {
 public:
  Histogram() = default;
  explicit Histogram(std::vector<double> bounds)  // in ascending order
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  // REQUIRES: counts.size() == bounds.size() + 1.
  Histogram(std::vector<double> bounds, std::vector<uint64_t> counts, double sum)
      : bounds_(std::move(bounds)), counts_(std::move(counts)), sum_(sum) {}

  void observe(double value) noexcept;  // allocates nothing
  const std::vector<double>& bounds() const noexcept { return bounds_; }
  // Each count is of the values above the previous bound and at most this one. The last count is of
  // the values above all bounds.
  const std::vector<uint64_t>& counts() const noexcept { return counts_; }
  double sum() const noexcept { return sum_; }
  uint64_t n_values() const noexcept;

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_ = {0};
  double sum_ = 0.0;
};

struct Figure {
  enum class Kind : uint8_t { kCounter, kGauge, kHistogram };
  std::string name;
  std::string help;
  Kind kind = Kind::kGauge;
  double value = 0.0;     // counter or gauge
  Histogram histogram{};  // histogram
  std::string label{};    // one label and its value, if several figures have the same name
  std::string label_value{};
};

// Converts figures to a JSON array and back. parse_figures() throws Error (kInvalidInput) for any
// other JSON, because another process may have written it. Names and labels consist of letters,
// digits and '_'.
Json figures_json(const std::vector<Figure>& figures);
std::vector<Figure> parse_figures(const Json& json);

}  // namespace billow

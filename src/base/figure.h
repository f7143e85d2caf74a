// What is counted or measured, on its way from the process that counts it to the one that shows it.
// A name belongs to one kind for ever. Plain data; its owner sees to threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace billow {

// How many of the observed values were at most each bound.
class Histogram {
 public:
  Histogram() = default;
  explicit Histogram(std::vector<double> bounds)  // in rising order
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  // REQUIRES: there is a count more than there are bounds.
  Histogram(std::vector<double> bounds, std::vector<uint64_t> counts, double sum)
      : bounds_(std::move(bounds)), counts_(std::move(counts)), sum_(sum) {}

  void observe(double value) noexcept;  // allocates nothing
  const std::vector<double>& bounds() const noexcept { return bounds_; }
  // Values above the bound before and at most this one; the last count is of those above all.
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
  double value = 0.0;     // of a counter or a gauge
  Histogram histogram{};  // of a histogram
  std::string label{};    // a label and its value, where one name has several figures
  std::string label_value{};
};

// An array of objects, and back. Throws Error (kInvalidInput) for what is none of these: another
// process may have written it. Names and labels are letters, digits and '_'.
Json figures_json(const std::vector<Figure>& figures);
std::vector<Figure> parse_figures(const Json& json);

}  // namespace billow

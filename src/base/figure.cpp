#include "base/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace billow {
namespace {

constexpr std::array<const char*, 3> kKinds = {"counter", "gauge", "histogram"};

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorCode::kInvalidInput, std::string("figures: ") + what);
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  if (!found->is_string()) refuse("a text is not a string");
  return found->get<std::string>();
}

double number_of(const Json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse("a value is not a number");
  return value.get<double>();
}

const Json& list_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) refuse("a histogram lacks a list");
  return *found;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
  constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz_0123456789";
  return !text.empty() && kLetters.find(text[0]) != kLetters.npos &&
         text.find_first_not_of(kAll) == text.npos;
}

Histogram histogram_of(const Json& entry) {
  std::vector<double> bounds;
  for (const Json& bound : list_of(entry, "bounds")) bounds.push_back(number_of(bound));
  if (!std::ranges::is_sorted(bounds)) refuse("bounds are not sorted");
  std::vector<uint64_t> counts;
  for (const Json& count : list_of(entry, "counts")) {
    if (!count.is_number_unsigned()) refuse("a count is not an unsigned integer");
    counts.push_back(count.get<uint64_t>());
  }
  if (counts.size() != bounds.size() + 1) refuse("counts and bounds do not match");
  return {std::move(bounds), std::move(counts), number_of(entry.value("sum", Json()))};
}

void add_label(const Json& entry, Figure& figure) {
  const auto label = entry.find("label");
  if (label == entry.end()) return;
  if (!label->is_array() || label->size() != 2 || !(*label)[0].is_string() ||
      !(*label)[1].is_string() || !is_name((*label)[0].get<std::string>()))
    refuse("a label is not a name and a value");
  figure.label = (*label)[0].get<std::string>();
  figure.label_value = (*label)[1].get<std::string>();
}

}  // namespace

void Histogram::observe(double value) noexcept {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

uint64_t Histogram::n_values() const noexcept {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

Json figures_json(const std::vector<Figure>& figures) {
  Json out = Json::array();
  for (const Figure& figure : figures) {
    Json entry = {{"name", figure.name},
                  {"help", figure.help},
                  {"kind", kKinds[static_cast<size_t>(figure.kind)]}};
    if (figure.kind == Figure::Kind::kHistogram) {
      entry["bounds"] = figure.histogram.bounds();
      entry["counts"] = figure.histogram.counts();
      entry["sum"] = figure.histogram.sum();
    } else {
      entry["value"] = figure.value;
    }
    if (!figure.label.empty()) entry["label"] = {figure.label, figure.label_value};
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<Figure> parse_figures(const Json& json) {
  if (!json.is_array()) refuse("not a list");
  std::vector<Figure> figures;
  for (const Json& entry : json) {
    if (!entry.is_object()) refuse("an entry is not an object");
    Figure figure;
    figure.name = text_of(entry, "name");
    if (!is_name(figure.name)) refuse("a name is invalid");
    figure.help = text_of(entry, "help");
    const auto kind = std::ranges::find(kKinds, text_of(entry, "kind"));
    if (kind == kKinds.end()) refuse("a kind is unknown");
    figure.kind = static_cast<Figure::Kind>(kind - kKinds.begin());
    if (figure.kind == Figure::Kind::kHistogram) {
      figure.histogram = histogram_of(entry);
    } else {
      figure.value = number_of(entry.value("value", Json()));
    }
    add_label(entry, figure);
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace billow

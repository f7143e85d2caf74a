#include "convert/shaping.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "convert/planned_tensor.h"

namespace billow::convert {
namespace {

uint64_t product(const std::vector<uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

PlaceMap composed(PlaceMap inner, PlaceMap outer) {
  if (!inner) return outer;
  return [inner = std::move(inner), outer = std::move(outer)](uint64_t at) {
    const uint64_t place = outer(at);
    return place == kNoPlace ? kNoPlace : inner(place);
  };
}

// Returns whether n = a * b * c. Avoids the product, which may overflow.
bool is_product(uint64_t n, uint64_t a, uint64_t b, uint64_t c) {
  if (a == 0 || b == 0 || n % a != 0 || n / a % b != 0) return false;
  return c != 0 && n / a / b == c;
}

PlaceMap swapped(uint64_t first, uint64_t a, uint64_t b, uint64_t c) {
  return [=](uint64_t at) {
    if (at < first) return at;
    const uint64_t i = at - first;
    const uint64_t of_b = i / (a * c);
    const uint64_t of_a = i / c % a;
    return first + (of_a * b + of_b) * c + i % c;
  };
}

}  // namespace

Shaping::Shaping(const ModelConfig& config, Weights& weights, const SafeTensor& source,
                 std::string name, uint32_t layer)
    : config_(config),
      weights_(weights),
      name_(std::move(name)),
      layer_(layer),
      shape_(source.shape) {
  part_.source = &source;
  if (shape_.empty()) shape_ = {1};
  if (shape_.size() > 1) row_len_ = shape_.back();
  n_rows_ = row_len_ == 0 ? 0 : product(shape_) / row_len_;
  require(n_rows_ != 0);
  part_.row_len = row_len_;
}

void Shaping::refuse(std::string_view what) const {
  throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}' {}", name_, what));
}

void Shaping::require(bool fits) const {
  if (!fits) refuse("does not have the shape that config.json requires");
}

void Shaping::reshape(std::vector<uint64_t> shape) {
  require(!shape.empty() && product(shape) == n_rows_ * row_len_);
  const uint64_t row_len = shape.size() == 1 ? 1 : shape.back();
  if (row_len != row_len_) {
    const bool is_first = !part_.row_of && part_.turned_rows == 0;
    BILLOW_CHECK(is_first);
    n_rows_ = n_rows_ * row_len_ / row_len;
    row_len_ = row_len;
    part_.row_len = row_len;
  }
  shape_ = std::move(shape);
}

void Shaping::describe(std::vector<uint64_t> shape) {
  require(product(shape) == n_rows_ * row_len_);
  described_ = std::move(shape);
}

void Shaping::set_rows(uint64_t n) {
  // A stack of matrices keeps its dimensions if each matrix has the same number of rows.
  if (shape_.size() == 3 && n % shape_[0] == 0) {
    shape_[1] = n / shape_[0];
  } else if (shape_.size() == 1) {
    shape_[0] = n;
  } else {
    shape_ = {n, row_len_};
  }
  n_rows_ = n;
}

void Shaping::map_rows(uint64_t n, PlaceMap map) {
  PlaceMap& place = part_.turned_rows == 0 ? part_.row_of : part_.turned_row_of;
  place = composed(std::move(place), std::move(map));
  set_rows(n);
}

void Shaping::gather(uint64_t n, const PlaceMap& row_of) { map_rows(n, row_of); }

void Shaping::select(uint64_t n_groups, uint64_t first, uint64_t n) {
  require(n_groups != 0 && n != 0 && n_rows_ % n_groups == 0);
  const uint64_t group = n_rows_ / n_groups;
  require(first <= group && n <= group - first);
  map_rows(n_groups * n, [=](uint64_t at) { return at / n * group + first + at % n; });
}

void Shaping::pair(uint64_t head_rows) {
  require(head_rows != 0 && head_rows % 2 == 0 && n_rows_ % head_rows == 0);
  map_rows(n_rows_, [=](uint64_t at) {
    const uint64_t i = at % head_rows;
    return at - i + i / 2 + i % 2 * (head_rows / 2);
  });
}

void Shaping::unpair(uint64_t head_rows, uint64_t n) {
  require(head_rows != 0 && n % 2 == 0 && n <= head_rows && n_rows_ % head_rows == 0);
  map_rows(n_rows_, [=](uint64_t at) {
    const uint64_t i = at % head_rows;
    if (i >= n) return at;
    return at - i + (i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1);
  });
}

void Shaping::swap_rows(uint64_t first, uint64_t a, uint64_t b, uint64_t c) {
  require(first <= n_rows_ && is_product(n_rows_ - first, a, b, c));
  const std::vector<uint64_t> shape = shape_;
  map_rows(n_rows_, swapped(first, a, b, c));
  shape_ = shape;
}

void Shaping::swap_columns(uint64_t a, uint64_t b, uint64_t c) {
  require(is_product(row_len_, a, b, c));
  part_.column_of = composed(std::move(part_.column_of), swapped(0, a, b, c));
}

void Shaping::turn() {
  require(shape_.size() >= 2);
  BILLOW_CHECK(part_.turned_rows == 0 && !part_.column_of);
  const uint64_t rows = shape_[shape_.size() - 2];
  part_.turned_rows = rows;
  n_rows_ = n_rows_ / rows * row_len_;
  std::swap(shape_[shape_.size() - 2], shape_[shape_.size() - 1]);
  row_len_ = rows;
}

void Shaping::resize_rows(uint64_t n) {
  if (n == n_rows_) return;
  const uint64_t n_there = n_rows_;
  map_rows(n, [=](uint64_t at) { return at < n_there ? at : kNoPlace; });
}

void Shaping::add(float value) {
  part_.steps.push_back({.what = Arithmetic::kAdd, .operand = value});
}

void Shaping::multiply(double factor) {
  part_.steps.push_back({.what = Arithmetic::kMultiply, .operand = static_cast<float>(factor)});
}

void Shaping::multiply_rows(std::function<float(uint64_t row)> factor_of) {
  part_.steps.push_back(
      {.what = Arithmetic::kMultiply, .operand = 1, .factor_of = std::move(factor_of)});
}

void Shaping::minus_exp() { part_.steps.push_back({.what = Arithmetic::kMinusExp}); }

void Shaping::unpack_mxfp4(const std::string& scales) {
  const SafeTensor* found = weights_.take(scales);
  constexpr uint64_t kGroupBytes = 16;
  require(found != nullptr && shape_.size() == 4 && shape_[3] == kGroupBytes &&
          part_.source->dtype == "U8" && found->dtype == "U8" && found->shape.size() == 3);
  require(found->shape[0] == shape_[0] && found->shape[1] == shape_[1] &&
          found->shape[2] == shape_[2]);
  part_.scales = found;
  const uint64_t row_bytes = shape_[2] * kGroupBytes;
  n_rows_ = shape_[0] * shape_[1];
  row_len_ = row_bytes;
  part_.row_len = row_bytes;
  shape_ = {shape_[0], shape_[1], row_bytes};
}

TensorPart Shaping::finish() && {
  if (part_.scales == nullptr) require_known_type(*part_.source, name_);
  part_.n_rows = n_rows_;
  return std::move(part_);
}

}  // namespace billow::convert

#include "engine/sampling/logit_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace billow::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxFloat = std::numeric_limits<float>::max();

// Loops over these have a trip count that is known at compile time. GCC vectorises only such loops
// at -O2.
constexpr size_t kLanes = 16;
constexpr size_t kBlock = 128;

float max_of(const float* values, size_t n) noexcept {
  float lanes[kLanes];
  for (size_t j = 0; j < kLanes; ++j) lanes[j] = -kInfinity;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    // The comparison is false for NaN, so it is ignored.
    for (size_t j = 0; j < kLanes; ++j) {
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
    }
  }
  float result = -kInfinity;
  for (; i < n; ++i) result = values[i] > result ? values[i] : result;
  for (size_t j = 0; j < kLanes; ++j) result = lanes[j] > result ? lanes[j] : result;
  return result;
}

// Returns exp(x) for x from -87 to 0. Cody and Waite's reduction x = n ln 2 + r, then the Taylor
// polynomial to r^6 / 720, |r| <= ln 2 / 2. The relative error is below 2e-7.
inline float exp_of(float x) noexcept {
  // 1.5 * 2^23: adding it rounds to an integer in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float sum = 1.0f / 720.0f;
  sum = sum * r + 1.0f / 120.0f;
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound))
                            << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(sum) + exponent);
}

}  // namespace

void LogitScan::read(std::span<const float> logits) {
  logits_ = logits;
  block_max_.clear();
  for (size_t i = 0; i < logits.size(); i += kBlock) {
    block_max_.push_back(max_of(logits.data() + i, std::min(kBlock, logits.size() - i)));
  }
  max_ = std::min(max_of(block_max_.data(), block_max_.size()), kMaxFloat);
}

bool LogitScan::has_finite() const noexcept { return max_ > -kInfinity; }

int32_t LogitScan::arg_max() const noexcept {
  size_t i = 0;
  while (!(block_max_[i / kBlock] >= max_)) i += kBlock;
  while (!(logits_[i] >= max_)) ++i;
  return static_cast<int32_t>(i);
}

void LogitScan::top(size_t n, std::vector<Candidate>& out) {
  gather_top(n, out);
  if (out.size() > n) {
    const auto end = out.begin() + static_cast<std::ptrdiff_t>(n);
    std::nth_element(out.begin(), end, out.end(), is_better);
    out.resize(n);
  }
  std::sort(out.begin(), out.end(), is_better);
}

void LogitScan::top_by_token(size_t n, std::vector<Candidate>& out) {
  gather_top(n, out);
  if (out.size() <= n) return;
  ranked_ = out;
  const auto nth = ranked_.begin() + static_cast<std::ptrdiff_t>(n - 1);
  std::nth_element(ranked_.begin(), nth, ranked_.end(), is_better);
  const Candidate last = *nth;
  std::erase_if(out, [&](const Candidate& candidate) { return is_better(last, candidate); });
}

// Finds the n best and few others, in ascending order of tokens.
void LogitScan::gather_top(size_t n, std::vector<Candidate>& out) {
  n = std::min(n, logits_.size());
  float threshold = -kInfinity;
  if (n > 0 && n <= block_max_.size()) {
    // The n-th largest block maximum. At least n logits are as large, so the n best are not below
    // it.
    selection_ = block_max_;
    const auto nth = selection_.begin() + static_cast<std::ptrdiff_t>(n - 1);
    std::nth_element(selection_.begin(), nth, selection_.end(), std::greater<float>());
    threshold = *nth;
  }
  at_least(threshold, out);
}

void LogitScan::at_least(float threshold, std::vector<Candidate>& out) const {
  out.clear();
  threshold = std::max(threshold, -kMaxFloat);
  for (size_t block = 0; block < block_max_.size(); ++block) {
    if (!(block_max_[block] >= threshold)) continue;
    const size_t end = std::min((block + 1) * kBlock, logits_.size());
    for (size_t i = block * kBlock; i < end; ++i) {
      if (!(logits_[i] >= threshold)) continue;
      out.push_back({std::min(logits_[i], kMaxFloat), static_cast<int32_t>(i)});
    }
  }
}

double LogitScan::sum_exp(float scale) const noexcept {
  double total = 0.0;
  for (size_t begin = 0; begin < logits_.size(); begin += kBlock) {
    // NaN and the missing part of the last block become exp(-87), which does not change a sum with
    // exp(0). +infinity becomes exp(0), because it counts as the max float. The loops are simple,
    // because GCC vectorises only such loops.
    float x[kBlock];
    const size_t n = std::min(kBlock, logits_.size() - begin);
    std::fill(std::copy_n(logits_.data() + begin, n, x), x + kBlock, -kInfinity);
    for (size_t j = 0; j < kBlock; ++j) x[j] = (x[j] - max_) * scale;
    for (size_t j = 0; j < kBlock; ++j) x[j] = x[j] > -87.0f ? x[j] : -87.0f;
    for (size_t j = 0; j < kBlock; ++j) x[j] = x[j] < 0.0f ? x[j] : 0.0f;
    for (size_t j = 0; j < kBlock; ++j) x[j] = exp_of(x[j]);
    float lanes[kLanes] = {};
    for (size_t i = 0; i < kBlock; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
    }
    for (size_t j = 1; j < kLanes; ++j) lanes[0] += lanes[j];
    total += static_cast<double>(lanes[0]);
  }
  return total;
}

}  // namespace billow::engine

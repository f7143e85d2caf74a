// Queries on one row of logits that need little more than one pass over it: the best token, the k
// best, all above a threshold, the normaliser of the softmax. NaN counts as -infinity (never
// chosen), +infinity as the max float. Owns its scratch and references the row. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::engine {

struct Candidate {
  float logit = 0.0f;
  int32_t token = 0;
};

// The order of candidates: larger logit first; for equal logits, lower token first.
inline bool is_better(const Candidate& a, const Candidate& b) noexcept {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

class LogitScan {
 public:
  // Makes `logits` (one per token) the row of the other functions. The row must not change until
  // the next read().
  void read(std::span<const float> logits);

  // Returns whether at least one logit is above -infinity. The other functions REQUIRE that.
  bool has_finite() const noexcept;
  float max() const noexcept { return max_; }
  int32_t arg_max() const noexcept;

  // Replaces `out` by the n best in order, or by all above -infinity if there are fewer.
  void top(size_t n, std::vector<Candidate>& out);
  // Replaces `out` by the same candidates in ascending order of tokens, without sorting them.
  // REQUIRES: n > 0.
  void top_by_token(size_t n, std::vector<Candidate>& out);
  // Replaces `out` by all that are at least `threshold` and above -infinity, in ascending order of
  // tokens.
  void at_least(float threshold, std::vector<Candidate>& out) const;

  // Returns the sum of exp((logit - max) * scale), with a relative error below 1e-6. REQUIRES:
  // scale is finite and not negative.
  double sum_exp(float scale) const noexcept;

 private:
  void gather_top(size_t n, std::vector<Candidate>& out);

  std::span<const float> logits_;
  std::vector<float> block_max_;  // max of each kBlock logits
  std::vector<float> selection_;
  std::vector<Candidate> ranked_;
  float max_ = 0.0f;
};

}  // namespace billow::engine

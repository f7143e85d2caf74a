// Mirostat: keeps the surprise of the output near a target by feedback (Basu et al. 2020,
// "Mirostat: a neural text decoding algorithm that directly controls perplexity", arXiv 2007.14966;
// version 2 is by the same authors). Holds the feedback variable mu of one sequence, in bits; the
// sampler owns it and does the selecting and drawing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/sampling/logit_scan.h"
#include "engine/sampling/options.h"

namespace billow::engine {

class Mirostat {
 public:
  // How many of the best tokens version 1 estimates the Zipf exponent from.
  static constexpr size_t kEstimationTokens = 100;

  // REQUIRES: validated options.
  explicit Mirostat(const SamplingOptions& options) noexcept;

  // Version 1: how many of the best of n_vocab tokens to keep, at least 1. `best` holds the best of
  // them, sorted, up to kEstimationTokens; logits are divided by `temperature` first.
  size_t top_k(std::span<const Candidate> best, float temperature, int32_t n_vocab) const noexcept;

  // Version 2: keep what is at most this surprising (-log2 p), or the best token when nothing is.
  double mu() const noexcept { return mu_; }

  // Corrects mu after a token was drawn with this probability among those kept. Above 0.
  void observe(double probability) noexcept;

 private:
  double tau_;
  double eta_;
  double mu_;
};

}  // namespace billow::engine

// Attention within texts that stand packed in one matrix: every token of a text sees all of its
// text, or what is near, and nothing else. What encoders compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// What a thread does at a time: some queries of one head of one text.
struct TextUnit {
  uint32_t begin = 0;  // the text's rows
  uint32_t end = 0;
  uint32_t head = 0;
  uint32_t query_begin = 0;  // of the text
  uint32_t query_end = 0;
};

// All units of texts whose rows end at `ends`, the first of them beginning at row 0; none is empty.
std::vector<TextUnit> text_units(std::span<const uint32_t> ends, size_t n_heads);

// out row = softmax(scale * q K^T) V for each head of head_len values. q and out are [n][n_heads *
// head_len]; k and v may have fewer heads, each for as many neighbours of q. A row's result depends
// on its text alone. REQUIRES: head_len is a multiple of 8.
struct TextHeads {
  size_t head_len = 0;
  float scale = 1.0f;
  tensor::Matrix q;
  tensor::Matrix k;
  tensor::Matrix v;
  // A token sees those at most so far away, before and behind it; 0: all of its text.
  size_t reach = 0;
  // ALiBi to both sides: slope times the distance is taken off a score. [n_heads], or null.
  const float* slopes = nullptr;
};
void encoder_attention(const Compute& compute, std::span<const TextUnit> units,
                       const TextHeads& heads, tensor::Matrix out);

}  // namespace billow::nn

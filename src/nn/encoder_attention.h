// Bidirectional attention of encoders over packed texts, which are adjacent in one matrix. Every
// token sees all of its own text, or a window of it, and no other text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

// A unit of work: some queries of one head of one text.
struct TextUnit {
  uint32_t begin = 0;  // the text's rows
  uint32_t end = 0;
  uint32_t head = 0;
  uint32_t query_begin = 0;  // first query within the text
  uint32_t query_end = 0;
};

// Returns all units of texts whose rows end at `ends`. The first text begins at row 0. No text is
// empty. Long texts are cut, so that all threads have work; the cuts change no result.
std::vector<TextUnit> text_units(std::span<const uint32_t> ends, size_t n_heads, size_t n_threads);

// out row = softmax(scale * q K^T) V for each head of head_len values. q and out are [n][n_heads *
// head_len]. k and v may have fewer heads; then several adjacent heads of q share one of them. A
// row's result depends only on its text. REQUIRES: head_len is a multiple of 8.
struct TextHeads {
  size_t head_len = 0;
  float scale = 1.0f;
  tensor::Matrix q;
  tensor::Matrix k;
  tensor::Matrix v;
  // A token sees tokens at most this far away, on both sides; 0: all of its text.
  size_t reach = 0;
  // ALiBi on both sides: subtracts slope times distance from a score. [n_heads], or null.
  const float* slopes = nullptr;
  // Rounds queries, keys, values and weights to BF16 if the kernels can. For models whose products
  // round activations to BF16, too. Ignored with slopes, and for texts that the reach limits.
  bool in_bf16 = false;
};
void encoder_attention(const Compute& compute, std::span<const TextUnit> units,
                       const TextHeads& heads, tensor::Matrix out);

}  // namespace billow::nn

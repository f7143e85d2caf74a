// Attention within texts that stand packed in one matrix: every token of a text sees all of its
// text and nothing else. What encoders compute.
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

// out row = softmax(scale * q K^T) V for each head of head_len values. All matrices are [n][n_heads
// * head_len]; a row's result depends on its text alone. REQUIRES: head_len is a multiple of 8.
struct TextHeads {
  size_t head_len = 0;
  float scale = 1.0f;
  tensor::Matrix q;
  tensor::Matrix k;
  tensor::Matrix v;
};
void text_attention(const Compute& compute, std::span<const TextUnit> units, const TextHeads& heads,
                    tensor::Matrix out);

// What each thread takes of the arena for it, in bytes.
size_t text_attention_bytes(size_t longest_text, size_t head_len);

}  // namespace billow::nn

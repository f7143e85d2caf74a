// A tensor of the new file: which rows of a tensor of the source it has, and in which order. Plain
// data; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "convert/weights.h"

namespace billow::convert {

struct PlannedTensor {
  std::string name;                    // in the GGUF file
  const SafeTensor* source = nullptr;  // null: `values` are its numbers
  uint64_t first_row = 0;              // the rows before it are left out
  uint64_t n_rows = 0;
  uint64_t row_len = 0;
  bool is_matrix = false;  // two dimensions in the file; else one, of all its numbers
  bool is_table = false;   // a small table that is added: kept in F32, as norms and biases are
  // Rows of a head, or 0. The rows of each head come in pairs, the first of one half behind the
  // first of the other, where the source has one half behind the other.
  uint64_t paired_rows = 0;
  std::vector<float> values{};
  std::vector<uint64_t> shape{};  // row_len first; empty: by is_matrix
};

// Takes a tensor from `weights`. Throws Error (kInvalidInput) where it is missing or of another
// shape, kUnsupported where it is of a type that cannot be converted.
const SafeTensor* require_tensor(Weights& weights, const std::string& name,
                                 std::initializer_list<uint64_t> shape);

// Rows of a table of tokens. Throws Error where it is missing or no matrix.
uint32_t n_rows_of(const Weights& weights, std::string_view name);

// The pattern with the number in place of its "#".
std::string filled(std::string_view pattern, uint32_t number);

}  // namespace billow::convert

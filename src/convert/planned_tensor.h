// A tensor of the new file: which rows of which tensors of the source it has. Plain data; any
// thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/tensor_part.h"
#include "convert/weights.h"
#include "quant/type.h"

namespace billow::convert {

struct PlannedTensor {
  std::string name;                    // in the GGUF file
  const SafeTensor* source = nullptr;  // null: `values` are its numbers
  uint64_t first_row = 0;              // the rows before it are left out
  uint64_t n_rows = 0;
  uint64_t row_len = 0;
  bool is_matrix = false;  // two dimensions in the file; else one, of all its numbers
  bool is_table = false;   // a small table that is added: kept in F32, as norms and biases are
  std::vector<float> values{};
  // What is more than rows of one tensor: parts behind one another, in place of `source`.
  std::vector<TensorPart> parts{};
  std::vector<uint64_t> shape{};      // row_len first; empty: by is_matrix
  std::optional<quant::Type> type{};  // that it has in any file; nullopt: by is_matrix and is_table
};

// Takes a tensor from `weights`. Throws Error (kInvalidInput) where it is missing or of another
// shape, kUnsupported where it is of a type that cannot be converted.
const SafeTensor* require_tensor(Weights& weights, const std::string& name,
                                 std::initializer_list<uint64_t> shape);

// Refuses a type that cannot be converted, as require_tensor() does.
void require_known_type(const SafeTensor& tensor, std::string_view name);

// Rows of a table of tokens. Throws Error where it is missing or no matrix.
uint32_t n_rows_of(const Weights& weights, std::string_view name);

// The pattern with the number in place of its "#".
std::string filled(std::string_view pattern, uint32_t number);

}  // namespace billow::convert

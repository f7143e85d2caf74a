// A tensor of the new file, and the source rows that it consists of. Plain data, thread-safe.
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
  const SafeTensor* source = nullptr;  // null: `values` are the numbers
  uint64_t first_row = 0;              // earlier rows are dropped
  uint64_t n_rows = 0;
  uint64_t row_len = 0;
  bool is_matrix = false;  // two dimensions in the file; otherwise one dimension with all numbers
  bool is_table = false;   // a small table that is added: stays in F32 like norms and biases
  std::vector<float> values{};
  // Consecutive parts, in place of `source`, if the tensor is more than rows of one source tensor.
  std::vector<TensorPart> parts{};
  std::vector<uint64_t> shape{};  // row_len first; empty: depends on is_matrix
  std::optional<quant::Type>
      type{};  // type in every file; nullopt: depends on is_matrix and is_table
};

// Takes a tensor from `weights`. Throws Error (kInvalidInput) if the tensor is missing or has
// another shape. Throws kUnsupported if its type cannot be converted.
const SafeTensor* require_tensor(Weights& weights, const std::string& name,
                                 std::initializer_list<uint64_t> shape);

// Throws Error for a type that cannot be converted, like require_tensor().
void require_known_type(const SafeTensor& tensor, std::string_view name);

// Returns the number of rows of a token table. Throws Error if it is missing or not a matrix.
uint32_t n_rows_of(const Weights& weights, std::string_view name);

// Returns the pattern with `number` in place of "#".
std::string filled(std::string_view pattern, uint32_t number);

}  // namespace billow::convert

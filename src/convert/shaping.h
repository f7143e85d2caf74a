// Converts one tensor of the checkpoint: reorders or selects rows, transposes matrices, computes
// with numbers. Each operation acts on the result of the operations before it. A tensor of one
// dimension has rows of one number, so that biases follow their matrices. REQUIRES of all
// operations: the sizes fit. If they do not, an Error (kInvalidInput) names the tensor. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/model_config.h"
#include "convert/tensor_part.h"
#include "convert/weights.h"

namespace billow::convert {

class Shaping {
 public:
  // REQUIRES: all arguments outlive this object. `name` is the name in the checkpoint, as rules see
  // it.
  Shaping(const ModelConfig& config, Weights& weights, const SafeTensor& source, std::string name,
          uint32_t layer);

  const ModelConfig& config() const noexcept { return config_; }
  const std::string& name() const noexcept { return name_; }
  uint32_t layer() const noexcept { return layer_; }
  // As in safetensors: the last size is the length of a row, except for tensors of one dimension.
  const std::vector<uint64_t>& shape() const noexcept { return shape_; }
  uint64_t n_rows() const noexcept { return n_rows_; }
  uint64_t row_len() const noexcept { return row_len_; }

  // Gives the same numbers other dimensions. REQUIRES: if the row length changes, this is the first
  // operation.
  void reshape(std::vector<uint64_t> shape);
  // Sets other dimensions for the file only. REQUIRES: the type in the file has no groups.
  void describe(std::vector<uint64_t> shape);
  // Divides the rows into `n_groups` groups and keeps `n` rows of each group, from row `first` on.
  void select(uint64_t n_groups, uint64_t first, uint64_t n);
  // Makes `n` rows. Row i is row `row_of(i)`, or zeros.
  void gather(uint64_t n, const PlaceMap& row_of);
  // Interleaves the two halves of each head's rows: the first row of the first half, the first row
  // of the second half, and so on.
  void pair(uint64_t head_rows);
  // Reverses pair() for the first `n` rows of each head.
  void unpair(uint64_t head_rows, uint64_t n);
  // Views the rows from `first` on as [a][b][c] and reorders them to [b][a][c].
  void swap_rows(uint64_t first, uint64_t a, uint64_t b, uint64_t c);
  // Reorders the columns of each whole row in the same way.
  void swap_columns(uint64_t a, uint64_t b, uint64_t c);
  // Transposes each matrix of the last two dimensions.
  void turn();
  // Appends rows of zeros or drops rows, so that there are n rows.
  void resize_rows(uint64_t n);

  void add(float value);
  void multiply(double factor);
  void multiply_rows(std::function<float(uint64_t row)> factor_of);
  void minus_exp();
  // Unpacks MXFP4 codes. The tensor `scales` has the scales. The last dimension has 16 bytes, and
  // the dimension before it counts groups. REQUIRES: this is the first operation.
  void unpack_mxfp4(const std::string& scales);

  [[noreturn]] void refuse(std::string_view what) const;
  // Returns the dimensions in the file: those of describe(), or shape().
  const std::vector<uint64_t>& file_shape() const noexcept {
    return described_.empty() ? shape_ : described_;
  }
  TensorPart finish() &&;

 private:
  void require(bool fits) const;
  // Composes a map of `n` rows with the earlier maps, and sets the dimensions.
  void map_rows(uint64_t n, PlaceMap map);
  void set_rows(uint64_t n);

  const ModelConfig& config_;
  Weights& weights_;
  const std::string name_;
  const uint32_t layer_;
  std::vector<uint64_t> shape_;
  std::vector<uint64_t> described_;
  uint64_t n_rows_ = 1;
  uint64_t row_len_ = 1;
  TensorPart part_;
};

}  // namespace billow::convert

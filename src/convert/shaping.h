// A tensor of the checkpoint on its way into the GGUF file: its rows in another order, some of them
// only, its matrices turned, its numbers computed with. Operations act on what those before them
// made. A tensor of one dimension has rows of one number, so that biases follow their matrices.
// REQUIRES of all: sizes that fit; where they do not, an Error (kInvalidInput) names the tensor.
// One thread.
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
  // REQUIRES: all live as long as this. `name` is the tensor's in the checkpoint, as rules see it.
  Shaping(const ModelConfig& config, Weights& weights, const SafeTensor& source, std::string name,
          uint32_t layer);

  const ModelConfig& config() const noexcept { return config_; }
  const std::string& name() const noexcept { return name_; }
  uint32_t layer() const noexcept { return layer_; }
  // As safetensors has it: the last size is the length of a row, but for one dimension.
  const std::vector<uint64_t>& shape() const noexcept { return shape_; }
  uint64_t n_rows() const noexcept { return n_rows_; }
  uint64_t row_len() const noexcept { return row_len_; }

  // The same numbers in other dimensions. Of rows of another length: only as the first operation.
  void reshape(std::vector<uint64_t> shape);
  // Other dimensions for the file alone. REQUIRES: the tensor is kept in F32.
  void describe(std::vector<uint64_t> shape);
  // Rows as `n_groups` groups: of each, `n` rows from its row `first` on.
  void select(uint64_t n_groups, uint64_t first, uint64_t n);
  // `n` rows, the i-th from row `row_of(i)` or of zeros.
  void gather(uint64_t n, const PlaceMap& row_of);
  // The rows of each head in pairs, the first of one half behind the first of the other, where they
  // have one half behind the other.
  void pair(uint64_t head_rows);
  // The other way, for the first `n` rows of each head.
  void unpair(uint64_t head_rows, uint64_t n);
  // Rows from `first` on, seen as [a][b][c], in the order [b][a][c].
  void swap_rows(uint64_t first, uint64_t a, uint64_t b, uint64_t c);
  // The same for the columns of each row, all of them.
  void swap_columns(uint64_t a, uint64_t b, uint64_t c);
  // Each matrix of the last two dimensions turned.
  void turn();
  // Rows of zeros behind the others, or rows left out, so that there are n.
  void resize_rows(uint64_t n);

  void add(float value);
  void multiply(double factor);
  void multiply_rows(std::function<float(uint64_t row)> factor_of);
  void minus_exp();
  // Codes of MXFP4 in bytes, whose scales are in the tensor `scales`. The last dimension is of 16
  // bytes, and the one before of groups. REQUIRES: the first operation.
  void unpack_mxfp4(const std::string& scales);

  [[noreturn]] void refuse(std::string_view what) const;
  // Those that the file has: described ones, or shape().
  const std::vector<uint64_t>& file_shape() const noexcept {
    return described_.empty() ? shape_ : described_;
  }
  TensorPart finish() &&;

 private:
  void require(bool fits) const;
  // Composes a map of `n` rows with those before it, and sets the dimensions.
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

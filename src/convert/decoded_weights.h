// Decodes the weights of quantised checkpoints to rows of 32-bit floats. Each function checks that
// its tensors fit together and returns a row decoder. Decoders read the tensors through `weights`.
// REQUIRES: `weights` outlives the decoders. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convert/weights.h"

namespace billow::convert {

struct DecodedTensor {
  std::vector<uint64_t> shape;  // as in safetensors: the last dimension varies fastest
  std::function<void(uint64_t row, std::span<float> values)> decode_row;

  uint64_t row_len() const { return shape.back(); }
};

// Decodes 8-bit numbers (FP8 or integers) times scales. There is one scale for the whole tensor, or
// one scale for each index of the first dimensions. If `block` is not empty, there is one scale for
// each block of that many rows and columns.
DecodedTensor decoded_scaled(const Weights& weights, const SafeTensor& codes,
                             const SafeTensor& scales, const std::vector<uint64_t>& block);

// Decodes "pack-quantized" tensors of compressed-tensors: integers of a few bits, packed along the
// rows into 32-bit words, with one scale for each group of columns. `zeros` may be null. `groups`
// has the group of each column; null: each group has the next group_len columns.
struct PackedTensors {
  const SafeTensor* codes;
  const SafeTensor* scales;
  const SafeTensor* zeros;
  const SafeTensor* groups;
  uint64_t n_rows, n_columns;
};
DecodedTensor decoded_packed(const Weights& weights, const PackedTensors& tensors, uint32_t n_bits,
                             uint64_t group_len);

// Decodes GPTQ: a transposed matrix of 2-, 4- or 8-bit integers in 32-bit words. Adds `zero_offset`
// to the zeros, because most files store each zero minus one.
struct GptqTensors {
  const SafeTensor *codes, *zeros, *scales, *groups;
};
DecodedTensor decoded_gptq(const Weights& weights, const GptqTensors& tensors, uint32_t n_bits,
                           int zero_offset);

// Transposes each matrix of a stack of `n_matrices`. Keeps one matrix in memory.
DecodedTensor decoded_turned(const Weights& weights, const SafeTensor& tensor, uint64_t n_matrices);

// ModelOpt's NVFP4 as rows of GGUF groups. `shape` counts numbers; `read_row` returns bytes.
struct RepackedTensor {
  std::vector<uint64_t> shape;
  std::function<void(uint64_t row, std::span<std::byte> bytes)> read_row;
};
RepackedTensor repacked_nvfp4(const Weights& weights, const SafeTensor& codes,
                              const SafeTensor& scales);

// Returns a reader for Weights::put() that produces 32-bit floats.
Weights::Reader float_reader(DecodedTensor decoded);

// Returns all numbers of a tensor of floats or integers. Throws Error (kUnsupported) for another
// type and Error (kTooLarge) for more than `n_max` numbers.
std::vector<float> small_tensor(const Weights& weights, const SafeTensor& tensor, uint64_t n_max);

}  // namespace billow::convert

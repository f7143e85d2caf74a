// Weights in the forms of quantised checkpoints, as rows of 32-bit floats. Each function returns
// what decodes a row; the tensors are checked to fit each other, and are read through `weights`,
// which must live longer. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convert/weights.h"

namespace billow::convert {

struct DecodedTensor {
  std::vector<uint64_t> shape;  // as in safetensors: the last varies fastest
  std::function<void(uint64_t row, std::span<float> values)> decode_row;

  uint64_t row_len() const { return shape.back(); }
};

// Numbers of 8 bits, FP8 or integers, times scales: one for all, one for each of the first
// dimensions, or (`block` not empty) one for each block of that many rows and columns.
DecodedTensor decoded_scaled(const Weights& weights, const SafeTensor& codes,
                             const SafeTensor& scales, const std::vector<uint64_t>& block);

// compressed-tensors' "pack-quantized": integers of a few bits in words of 32, along the rows, with
// a scale for each group of columns. `zeros` may be null.
struct PackedTensors {
  const SafeTensor* codes;
  const SafeTensor* scales;
  const SafeTensor* zeros;
  uint64_t n_rows, n_columns;
};
DecodedTensor decoded_packed(const Weights& weights, const PackedTensors& tensors, uint32_t n_bits,
                             uint64_t group_len);

// GPTQ: a turned matrix of integers of 2, 4 or 8 bits in words of 32. `zero_offset` is added to the
// zeros, which most files have less one.
struct GptqTensors {
  const SafeTensor *codes, *zeros, *scales, *groups;
};
DecodedTensor decoded_gptq(const Weights& weights, const GptqTensors& tensors, uint32_t n_bits,
                           int zero_offset);

// A stack of `n_matrices`, each turned: columns become rows. Holds one of them in memory.
DecodedTensor decoded_turned(const Weights& weights, const SafeTensor& tensor, uint64_t n_matrices);

// NVFP4 of ModelOpt as rows of GGUF's groups: `shape` counts numbers, and `read_row` gives bytes.
struct RepackedTensor {
  std::vector<uint64_t> shape;
  std::function<void(uint64_t row, std::span<std::byte> bytes)> read_row;
};
RepackedTensor repacked_nvfp4(const Weights& weights, const SafeTensor& codes,
                              const SafeTensor& scales);

// A reader for Weights::put(), as 32-bit floats.
Weights::Reader float_reader(DecodedTensor decoded);

// All numbers of a tensor of floats or whole numbers. Throws Error (kUnsupported) for another type,
// and (kTooLarge) for more than `n_max`.
std::vector<float> small_tensor(const Weights& weights, const SafeTensor& tensor, uint64_t n_max);

}  // namespace billow::convert

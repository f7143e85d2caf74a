#include "convert/decoded_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "quant/half.h"
#include "quant/type.h"

namespace billow::convert {
namespace {

[[noreturn]] void misfit(const SafeTensor& tensor, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, fmt::format("tensor '{}': {}", tensor.name, what));
}

uint64_t n_elements(const SafeTensor& tensor) {
  uint64_t n = 1;
  for (const uint64_t size : tensor.shape) n *= size;
  return n;
}

void require_type(const SafeTensor& tensor, std::string_view dtype) {
  if (tensor.dtype == dtype) return;
  throw Error(ErrorCode::kUnsupported, fmt::format("tensor '{}' is of the type {}, not {}",
                                                   tensor.name, tensor.dtype, dtype));
}

void require_shape(const SafeTensor& tensor, std::initializer_list<uint64_t> shape) {
  if (!std::ranges::equal(tensor.shape, shape))
    misfit(tensor, "its shape does not fit the weights that it belongs to");
}

// FP8 with 4 exponent bits and no infinity.
float e4m3(uint8_t byte) {
  const int exponent = byte >> 3 & 15;
  const int mantissa = byte & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                    : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return byte & 0x80 ? -value : value;
}

float e5m2(uint8_t byte) { return quant::f16_to_f32(static_cast<uint16_t>(byte << 8)); }

float int8(uint8_t byte) { return static_cast<float>(static_cast<int8_t>(byte)); }

// A scale that is a power of two.
float e8m0(uint8_t byte) { return byte == 255 ? NAN : std::ldexp(1.0F, byte - 127); }

using ByteValues = std::array<float, 256>;

struct ByteType {
  std::string_view dtype;
  float (*value)(uint8_t byte);
};
constexpr std::array kByteTypes{ByteType{"F8_E4M3", e4m3}, ByteType{"F8_E5M2", e5m2},
                                ByteType{"I8", int8}, ByteType{"F8_E8M0", e8m0}};

std::optional<ByteValues> values_of(std::string_view dtype) {
  const auto* type = std::ranges::find(kByteTypes, dtype, &ByteType::dtype);
  if (type == kByteTypes.end()) return std::nullopt;
  ByteValues values;
  for (unsigned byte = 0; byte < 256; ++byte)
    values[byte] = type->value(static_cast<uint8_t>(byte));
  return values;
}

uint64_t element_bytes(const SafeTensor& tensor) {
  const uint64_t n = n_elements(tensor);
  return n == 0 ? 1 : tensor.n_bytes / n;
}

// Reads `values.size()` numbers from element `first` on.
void read_numbers(const Weights& weights, const SafeTensor& tensor, uint64_t first,
                  std::span<float> values) {
  const uint64_t n_bytes = element_bytes(tensor);
  std::vector<std::byte> bytes(values.size() * n_bytes);
  weights.read(tensor, first * n_bytes, bytes);
  const quant::TypeRow* type = quant::find_type(tensor.dtype);
  if (type != nullptr && type->group_len == 1) {
    type->decode(bytes.data(), values.size(), values.data());
    return;
  }
  if (tensor.dtype == "I32" || tensor.dtype == "I64") {
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t value = 0;
      int32_t narrow = 0;
      std::memcpy(n_bytes == 8 ? static_cast<void*>(&value) : &narrow, bytes.data() + i * n_bytes,
                  n_bytes);
      values[i] = static_cast<float>(n_bytes == 8 ? value : narrow);
    }
    return;
  }
  const auto table = values_of(tensor.dtype);
  if (!table) {
    throw Error(ErrorCode::kUnsupported, fmt::format("tensor '{}' is of the type {}, which is not "
                                                     "supported for scales",
                                                     tensor.name, tensor.dtype));
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (*table)[std::to_integer<uint8_t>(bytes[i])];
}

std::vector<uint32_t> read_words(const Weights& weights, const SafeTensor& tensor, uint64_t first,
                                 uint64_t n) {
  std::vector<uint32_t> words(n);
  weights.read(tensor, first * sizeof(uint32_t), std::as_writable_bytes(std::span(words)));
  return words;
}

uint64_t divided_up(uint64_t n, uint64_t by) { return n / by + (n % by != 0 ? 1 : 0); }

// Where the scales of a row begin, and how many columns share a scale. In a stack of matrices, row
// numbers count from the first row of the stack.
struct ScaleRows {
  uint64_t n_rows_of_matrix;  // rows of one matrix of a stack
  uint64_t block_rows;        // rows that share their scales
  uint64_t n_scales;          // per row
  uint64_t block_columns;

  uint64_t first(uint64_t row) const {
    const uint64_t matrix = row / n_rows_of_matrix;
    const uint64_t blocks = divided_up(n_rows_of_matrix, block_rows);
    return (matrix * blocks + row % n_rows_of_matrix / block_rows) * n_scales;
  }
};

ScaleRows block_scales(const SafeTensor& codes, const SafeTensor& scales,
                       const std::vector<uint64_t>& block) {
  const size_t n = codes.shape.size();
  if (block.size() != 2 || block[0] == 0 || block[1] == 0 || n < 2 || scales.shape.size() != n)
    misfit(scales, "it does not fit blocks of rows and columns");
  std::vector<uint64_t> wanted = codes.shape;
  wanted[n - 2] = divided_up(wanted[n - 2], block[0]);
  wanted[n - 1] = divided_up(wanted[n - 1], block[1]);
  if (scales.shape != wanted) misfit(scales, "its shape does not fit the blocks of its weights");
  return {codes.shape[n - 2], block[0], wanted[n - 1], block[1]};
}

// One scale for the tensor, or one for each index of the first dimensions.
ScaleRows plain_scales(const SafeTensor& codes, const SafeTensor& scales) {
  const uint64_t n_scales = n_elements(scales);
  const uint64_t n_columns = codes.shape.back();
  const uint64_t n_rows = n_columns == 0 ? 0 : n_elements(codes) / n_columns;
  uint64_t n_first = 1;
  size_t i = 0;
  for (; i < codes.shape.size() && n_first < n_scales; ++i) n_first *= codes.shape[i];
  const bool fits = n_first == n_scales && i < codes.shape.size() &&
                    std::equal(codes.shape.begin(),
                               codes.shape.begin() +
                                   static_cast<std::ptrdiff_t>(std::min(i, scales.shape.size())),
                               scales.shape.begin());
  if (!fits && n_scales != 1) misfit(scales, "its shape does not fit the weights that it scales");
  return {std::max<uint64_t>(1, n_rows), std::max<uint64_t>(1, n_rows / n_scales), 1,
          std::max<uint64_t>(1, n_columns)};
}

// Returns the group of each column of a packed tensor.
std::vector<uint32_t> groups_of_columns(const Weights& weights, const PackedTensors& tensors,
                                        uint64_t n_groups, uint64_t group_len) {
  std::vector<uint32_t> groups(tensors.n_columns);
  for (uint64_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<uint32_t>(i / group_len);
  if (tensors.groups == nullptr) return groups;
  require_type(*tensors.groups, "I32");
  require_shape(*tensors.groups, {tensors.n_columns});
  std::vector<uint32_t> given = read_words(weights, *tensors.groups, 0, tensors.n_columns);
  // compressed-tensors fills the tensor with -1 if the columns are in order.
  constexpr auto kUnset = static_cast<uint32_t>(-1);
  if (std::ranges::all_of(given, [](uint32_t group) { return group == kUnset; })) return groups;
  if (std::ranges::any_of(given, [&](uint32_t group) { return group >= n_groups; }))
    misfit(*tensors.groups, "it names a group that does not exist");
  return given;
}

}  // namespace

DecodedTensor decoded_scaled(const Weights& weights, const SafeTensor& codes,
                             const SafeTensor& scales, const std::vector<uint64_t>& block) {
  const auto table = values_of(codes.dtype);
  const bool is_plain = quant::find_type(codes.dtype) != nullptr && element_bytes(codes) != 1;
  if ((!table && !is_plain) || codes.shape.empty()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("tensor '{}' is of the type {}, which cannot be scaled (known: "
                            "F8_E4M3, F8_E5M2, I8)",
                            codes.name, codes.dtype));
  }
  const ScaleRows rows =
      block.empty() ? plain_scales(codes, scales) : block_scales(codes, scales, block);
  const auto decode = [&weights, &codes, &scales, rows](uint64_t row, std::span<float> values) {
    std::vector<float> factors(rows.n_scales);
    read_numbers(weights, scales, rows.first(row), factors);
    read_numbers(weights, codes, row * values.size(), values);
    for (size_t i = 0; i < values.size(); ++i) values[i] *= factors[i / rows.block_columns];
  };
  return {codes.shape, decode};
}

DecodedTensor decoded_packed(const Weights& weights, const PackedTensors& tensors, uint32_t n_bits,
                             uint64_t group_len) {
  const uint64_t n_packed = 32 / n_bits;
  const uint64_t n_words = divided_up(tensors.n_columns, n_packed);
  const uint64_t n_groups = divided_up(tensors.n_columns, group_len);
  require_type(*tensors.codes, "I32");
  require_shape(*tensors.codes, {tensors.n_rows, n_words});
  require_shape(*tensors.scales, {tensors.n_rows, n_groups});
  if (tensors.zeros != nullptr) {
    require_type(*tensors.zeros, "I32");
    require_shape(*tensors.zeros, {divided_up(tensors.n_rows, n_packed), n_groups});
  }
  const std::vector<uint32_t> groups = groups_of_columns(weights, tensors, n_groups, group_len);
  const uint32_t mask = (uint32_t{1} << n_bits) - 1;
  const auto decode = [&weights, tensors, n_bits, n_packed, n_words, n_groups, mask, groups](
                          uint64_t row, std::span<float> values) {
    const auto words = read_words(weights, *tensors.codes, row * n_words, n_words);
    std::vector<float> scales(n_groups);
    read_numbers(weights, *tensors.scales, row * n_groups, scales);
    std::vector<uint32_t> zeros(n_groups, uint32_t{1} << (n_bits - 1));
    if (tensors.zeros != nullptr) {
      zeros = read_words(weights, *tensors.zeros, row / n_packed * n_groups, n_groups);
      for (uint32_t& zero : zeros) zero = zero >> (row % n_packed * n_bits) & mask;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t code = words[i / n_packed] >> (i % n_packed * n_bits) & mask;
      const uint32_t group = groups[i];
      values[i] =
          static_cast<float>(static_cast<int32_t>(code) - static_cast<int32_t>(zeros[group])) *
          scales[group];
    }
  };
  return {{tensors.n_rows, tensors.n_columns}, decode};
}

DecodedTensor decoded_gptq(const Weights& weights, const GptqTensors& tensors, uint32_t n_bits,
                           int zero_offset) {
  for (const SafeTensor* tensor : {tensors.codes, tensors.zeros, tensors.groups})
    require_type(*tensor, "I32");
  const uint64_t n_packed = 32 / n_bits;
  if (tensors.codes->shape.size() != 2 || tensors.scales->shape.size() != 2)
    misfit(*tensors.codes, "it is not a matrix");
  const uint64_t n_in = tensors.codes->shape[0] * n_packed;
  const uint64_t n_out = tensors.codes->shape[1];
  const uint64_t n_groups = tensors.scales->shape[0];
  require_shape(*tensors.scales, {n_groups, n_out});
  require_shape(*tensors.groups, {n_in});
  if (n_out % n_packed != 0) misfit(*tensors.codes, "its rows are not whole 32-bit words");
  require_shape(*tensors.zeros, {n_groups, n_out / n_packed});
  // Decodes the whole transposed matrix, because its columns are far apart in the file. Frees it
  // after the last row.
  auto matrix = std::make_shared<std::vector<float>>();
  const uint32_t mask = n_bits == 32 ? UINT32_MAX : (uint32_t{1} << n_bits) - 1;
  const auto decode_all = [&weights, tensors, n_bits, n_packed, n_in, n_out, n_groups, mask,
                           zero_offset](std::vector<float>& values) {
    std::vector<float> scales(n_groups * n_out);
    read_numbers(weights, *tensors.scales, 0, scales);
    const auto zeros = read_words(weights, *tensors.zeros, 0, n_groups * n_out / n_packed);
    const auto groups = read_words(weights, *tensors.groups, 0, n_in);
    values.resize(n_in * n_out);
    for (uint64_t in = 0; in < n_in; ++in) {
      if (groups[in] >= n_groups) misfit(*tensors.groups, "it names a group that does not exist");
      std::vector<uint32_t> words;
      words = read_words(weights, *tensors.codes, in / n_packed * n_out, n_out);
      for (uint64_t out = 0; out < n_out; ++out) {
        const uint32_t code = words[out] >> (in % n_packed * n_bits) & mask;
        const uint64_t place = groups[in] * n_out + out;
        const uint32_t zero = zeros[place / n_packed] >> (place % n_packed * n_bits) & mask;
        values[out * n_in + in] =
            scales[place] * static_cast<float>(static_cast<int32_t>(code) -
                                               (static_cast<int32_t>(zero) + zero_offset));
      }
    }
  };
  const auto decode = [matrix, decode_all, n_out](uint64_t row, std::span<float> values) {
    if (matrix->empty()) decode_all(*matrix);
    std::copy_n(matrix->begin() + static_cast<std::ptrdiff_t>(row * values.size()), values.size(),
                values.begin());
    if (row + 1 == n_out) std::vector<float>().swap(*matrix);
  };
  return {{n_out, n_in}, decode};
}

DecodedTensor decoded_turned(const Weights& weights, const SafeTensor& tensor,
                             uint64_t n_matrices) {
  if (tensor.shape.size() != 2 || n_matrices == 0 || tensor.shape[0] % n_matrices != 0)
    misfit(tensor, "it is not a stack of matrices");
  const uint64_t n_rows = tensor.shape[0] / n_matrices;
  const uint64_t n_columns = tensor.shape[1];
  struct Matrix {
    uint64_t number = UINT64_MAX;
    std::vector<float> values;
  };
  auto matrix = std::make_shared<Matrix>();
  const auto decode = [&weights, &tensor, matrix, n_rows, n_columns](uint64_t row,
                                                                     std::span<float> values) {
    const uint64_t number = row / n_columns;
    if (matrix->number != number) {
      matrix->values.resize(n_rows * n_columns);
      read_numbers(weights, tensor, number * matrix->values.size(), matrix->values);
      matrix->number = number;
    }
    for (uint64_t i = 0; i < n_rows; ++i)
      values[i] = matrix->values[i * n_columns + row % n_columns];
  };
  return {{n_matrices * n_columns, n_rows}, decode};
}

Weights::Reader float_reader(DecodedTensor decoded) {
  return [decoded = std::move(decoded)](uint64_t offset, std::span<std::byte> bytes) {
    std::vector<float> row(decoded.row_len());
    const uint64_t row_bytes = row.size() * sizeof(float);
    while (!bytes.empty()) {
      decoded.decode_row(offset / row_bytes, row);
      const auto from = std::as_bytes(std::span(row)).subspan(offset % row_bytes);
      const size_t n = std::min(from.size(), bytes.size());
      std::copy_n(from.begin(), n, bytes.begin());
      bytes = bytes.subspan(n);
      offset += n;
    }
  };
}

RepackedTensor repacked_nvfp4(const Weights& weights, const SafeTensor& codes,
                              const SafeTensor& scales) {
  constexpr uint64_t kGroup = 64;       // numbers per GGUF group
  constexpr uint64_t kBlock = 16;       // numbers per scale
  constexpr uint64_t kGroupBytes = 36;  // 4 scales, 32 bytes of codes
  require_type(codes, "U8");
  require_type(scales, "F8_E4M3");
  if (codes.shape.size() != 2 || codes.shape[1] % (kGroup / 2) != 0)
    misfit(codes, "its row length is not a multiple of 64");
  const uint64_t n_rows = codes.shape[0];
  const uint64_t n_columns = codes.shape[1] * 2;
  require_shape(scales, {n_rows, n_columns / kBlock});
  const auto read = [&weights, &codes, &scales, n_columns](uint64_t row, std::span<std::byte> out) {
    std::vector<std::byte> pairs(n_columns / 2);
    std::vector<std::byte> factors(n_columns / kBlock);
    weights.read(codes, row * pairs.size(), pairs);
    weights.read(scales, row * factors.size(), factors);
    const auto code = [&pairs](uint64_t i) { return pairs[i / 2] >> (i % 2 * 4) & std::byte{15}; };
    for (uint64_t group = 0; group < n_columns / kGroup; ++group) {
      std::byte* bytes = out.data() + group * kGroupBytes;
      for (uint64_t i = 0; i < 4; ++i) bytes[i] = factors[group * 4 + i] & std::byte{0x7F};
      for (uint64_t i = 0; i < 32; ++i) {
        const uint64_t first = group * kGroup + i / 8 * kBlock + i % 8;
        bytes[4 + i] = code(first) | code(first + 8) << 4;
      }
    }
  };
  return {{n_rows, n_columns}, read};
}

std::vector<float> small_tensor(const Weights& weights, const SafeTensor& tensor, uint64_t n_max) {
  const uint64_t n = n_elements(tensor);
  if (n > n_max) {
    throw Error(ErrorCode::kTooLarge,
                fmt::format("tensor '{}' has more than {} numbers", tensor.name, n_max));
  }
  std::vector<float> values(n);
  read_numbers(weights, tensor, 0, values);
  return values;
}

}  // namespace billow::convert

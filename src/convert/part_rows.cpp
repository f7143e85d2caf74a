#include "convert/part_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/error.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied without conversion");

namespace billow::convert {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

uint64_t placed(const PlaceMap& map, uint64_t at) { return map ? map(at) : at; }

// Reads rows of one tensor in any order.
class RowReader {
 public:
  RowReader(const Weights& weights, const SafeTensor& tensor, size_t row_bytes)
      : weights_(weights), tensor_(tensor), row_bytes_(row_bytes) {}

  // Reads rows [first, first + n) of the result as source bytes.
  void read(const PlaceMap& row_of, uint64_t first, size_t n, std::vector<std::byte>& bytes) {
    bytes.resize(n * row_bytes_);
    if (!row_of) {
      weights_.read(tensor_, first * row_bytes_, bytes);
      return;
    }
    places_.resize(n);
    for (size_t i = 0; i < n; ++i) places_[i] = checked(row_of(first + i));
    if (read_neighbours(bytes)) return;
    for (size_t i = 0; i < n;) {
      const std::span<std::byte> row(bytes.data() + i * row_bytes_, row_bytes_);
      if (places_[i] == kNoPlace) {
        std::ranges::fill(row, std::byte{0});
        ++i;
        continue;
      }
      size_t run = 1;
      while (i + run < n && places_[i + run] == places_[i] + run) ++run;
      weights_.read(tensor_, places_[i] * row_bytes_, {row.data(), run * row_bytes_});
      i += run;
    }
  }

 private:
  // Checks a row number, because it depends on untrusted sizes of config.json.
  uint64_t checked(uint64_t place) const {
    if (place == kNoPlace || place < tensor_.n_bytes / row_bytes_) return place;
    throw Error(ErrorCode::kInvalidInput,
                "tensor '" + tensor_.name + "' has fewer rows than config.json says");
  }

  // If the rows are close together, reads everything from the first to the last with one call.
  bool read_neighbours(std::vector<std::byte>& bytes) {
    const auto [min, max] = std::ranges::minmax_element(places_);
    if (*max == kNoPlace || *max - *min >= 2 * places_.size()) return false;
    near_.resize((*max - *min + 1) * row_bytes_);
    weights_.read(tensor_, *min * row_bytes_, near_);
    for (size_t i = 0; i < places_.size(); ++i) {
      std::memcpy(bytes.data() + i * row_bytes_, near_.data() + (places_[i] - *min) * row_bytes_,
                  row_bytes_);
    }
    return true;
  }

  const Weights& weights_;
  const SafeTensor& tensor_;
  const size_t row_bytes_;
  std::vector<uint64_t> places_;
  std::vector<std::byte> near_;
};

template <class Bits>
void turn(std::span<const std::byte> matrix, std::span<const uint64_t> columns, size_t n_rows,
          size_t n_cols, std::span<std::byte> out) {
  for (size_t row = 0; row < n_rows; ++row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      Bits bits;
      std::memcpy(&bits, matrix.data() + (row * n_cols + columns[i]) * sizeof bits, sizeof bits);
      std::memcpy(out.data() + (i * n_rows + row) * sizeof bits, &bits, sizeof bits);
    }
  }
}

// Reads rows of transposed matrices. Keeps one matrix in memory.
class TurnedReader {
 public:
  TurnedReader(const Weights& weights, const TensorPart& part, size_t element_bytes)
      : part_(part),
        element_bytes_(element_bytes),
        rows_(weights, *part.source, part.row_len * element_bytes) {}

  void read(uint64_t first, size_t n, std::vector<std::byte>& bytes) {
    const size_t row_bytes = part_.turned_rows * element_bytes_;
    bytes.resize(n * row_bytes);
    for (size_t i = 0; i < n;) {
      const uint64_t place = placed(part_.turned_row_of, first + i);
      const uint64_t number = place / part_.row_len;
      columns_.assign(1, place % part_.row_len);
      while (i + columns_.size() < n) {
        const uint64_t next = placed(part_.turned_row_of, first + i + columns_.size());
        if (next / part_.row_len != number) break;
        columns_.push_back(next % part_.row_len);
      }
      if (number != number_) {
        rows_.read(part_.row_of, number * part_.turned_rows, part_.turned_rows, matrix_);
        number_ = number;
      }
      const std::span out(bytes.data() + i * row_bytes, columns_.size() * row_bytes);
      if (element_bytes_ == sizeof(uint32_t)) {
        turn<uint32_t>(matrix_, columns_, part_.turned_rows, part_.row_len, out);
      } else {
        turn<uint16_t>(matrix_, columns_, part_.turned_rows, part_.row_len, out);
      }
      i += columns_.size();
    }
  }

 private:
  const TensorPart& part_;
  const size_t element_bytes_;
  RowReader rows_;
  uint64_t number_ = kNoPlace;  // number of the matrix in memory
  std::vector<std::byte> matrix_;
  std::vector<uint64_t> columns_;
};

void compute(const ArithmeticStep& step, uint64_t first_row, size_t row_len,
             std::span<float> values) {
  switch (step.what) {
    case Arithmetic::kAdd:
      for (float& value : values) value += step.operand;
      return;
    case Arithmetic::kMinusExp:
      for (float& value : values) value = -std::exp(value);
      return;
    case Arithmetic::kMultiply:
      break;
  }
  for (size_t at = 0; at < values.size(); at += row_len) {
    const float factor = step.factor_of ? step.factor_of(first_row + at / row_len) : step.operand;
    for (float& value : values.subspan(at, row_len)) value *= factor;
  }
}

// Repacks groups of 32 codes. In the checkpoint, byte i has the codes 2i and 2i + 1. In GGUF, the
// scale comes first, and byte i has the codes i and i + 16.
void repack_mxfp4(std::span<const std::byte> codes, std::span<const std::byte> scales,
                  std::span<std::byte> out) {
  constexpr size_t kHalf = 16;
  const auto code = [&](size_t group, size_t i) {
    const auto byte = static_cast<unsigned>(codes[group * kHalf + i / 2]);
    return i % 2 == 0 ? byte & 15 : byte >> 4;
  };
  for (size_t group = 0; group < scales.size(); ++group) {
    std::byte* to = out.data() + group * (kHalf + 1);
    to[0] = scales[group];
    for (size_t i = 0; i < kHalf; ++i)
      to[1 + i] = static_cast<std::byte>(code(group, i) | code(group, i + kHalf) << 4);
  }
}

void write_mxfp4(const Weights& weights, const TensorPart& part, RowSink& out) {
  constexpr size_t kCodeBytes = 16;
  const size_t n_groups = part.row_len / kCodeBytes;
  RowReader codes(weights, *part.source, part.row_len);
  RowReader scales(weights, *part.scales, n_groups);
  std::vector<std::byte> code_bytes;
  std::vector<std::byte> scale_bytes;
  std::vector<std::byte> groups;
  const size_t rows_at_once = std::max<size_t>(1, kPieceElements / part.row_len);
  for (uint64_t at = 0; at < part.n_rows;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(rows_at_once, part.n_rows - at));
    codes.read(part.row_of, at, n, code_bytes);
    scales.read(part.row_of, at, n, scale_bytes);
    groups.resize(scale_bytes.size() * (kCodeBytes + 1));
    repack_mxfp4(code_bytes, scale_bytes, groups);
    out.copy(groups);
    at += n;
  }
}

}  // namespace

quant::Type source_type(const SafeTensor& tensor) {
  if (tensor.dtype == "F32") return quant::Type::kF32;
  if (tensor.dtype == "NVFP4") return quant::Type::kNVFP4;
  return tensor.dtype == "F16" ? quant::Type::kF16 : quant::Type::kBF16;
}

void write_part(const Weights& weights, const TensorPart& part, RowSink& out) {
  if (part.scales != nullptr) return write_mxfp4(weights, part, out);
  const quant::Type source = source_type(*part.source);
  const bool has_elements =
      quant::row(source).group_len == 1;  // rows of other types are only copied
  const size_t element_bytes = has_elements ? quant::row_bytes(source, 1) : 0;
  const auto row_len = static_cast<size_t>(part.result_row_len());
  const bool is_copied = part.steps.empty() && !part.column_of && source == out.type();
  RowReader rows(weights, *part.source,
                 quant::row_bytes(source, static_cast<size_t>(part.row_len)));
  TurnedReader turned(weights, part, element_bytes);
  std::vector<std::byte> bytes;
  std::vector<float> values;
  std::vector<float> row_values(row_len);
  const size_t rows_at_once = std::max<size_t>(1, kPieceElements / row_len);
  for (uint64_t at = 0; at < part.n_rows;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(rows_at_once, part.n_rows - at));
    if (part.turned_rows == 0) {
      rows.read(part.row_of, at, n, bytes);
    } else {
      turned.read(at, n, bytes);
    }
    if (is_copied) {
      out.copy(bytes);
      at += n;
      continue;
    }
    values.resize(n * row_len);
    quant::row(source).decode(bytes.data(), values.size(), values.data());
    for (size_t row = 0; part.column_of && row < n; ++row) {
      const std::span<float> to(values.data() + row * row_len, row_len);
      std::ranges::copy(to, row_values.begin());
      for (size_t i = 0; i < row_len; ++i) to[i] = row_values[part.column_of(i)];
    }
    for (const ArithmeticStep& step : part.steps) compute(step, at, row_len, values);
    out.encode(values, row_len);
    at += n;
  }
}

}  // namespace billow::convert

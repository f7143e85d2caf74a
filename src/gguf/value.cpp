#include "gguf/value.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace billow::gguf {
namespace {

struct TypeFacts {
  std::string_view name;
  size_t n_bytes;
};

// Indexed by type number.
constexpr std::array<TypeFacts, 13> kTypes = {{{"u8", 1},
                                               {"i8", 1},
                                               {"u16", 2},
                                               {"i16", 2},
                                               {"u32", 4},
                                               {"i32", 4},
                                               {"f32", 4},
                                               {"bool", 1},
                                               {"string", 0},
                                               {"array", 0},
                                               {"u64", 8},
                                               {"i64", 8},
                                               {"f64", 8}}};

template <typename T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

int64_t saturated(double value) noexcept {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(value)) return 0;
  if (value >= kLimit) return std::numeric_limits<int64_t>::max();
  if (value < -kLimit) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t saturated(uint64_t value) noexcept {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return value > static_cast<uint64_t>(kMax) ? kMax : static_cast<int64_t>(value);
}

Value element(const Array& array, uint64_t i) noexcept {
  BILLOW_CHECK(i < array.n);
  return decode_scalar(array.element_type,
                       array.bytes.data() + i * value_type_bytes(array.element_type));
}

}  // namespace

bool is_value_type(uint32_t number) noexcept { return number < kTypes.size(); }

std::string_view value_type_name(ValueType type) noexcept {
  const auto number = static_cast<uint32_t>(type);
  return is_value_type(number) ? kTypes[number].name : "unknown";
}

size_t value_type_bytes(ValueType type) noexcept {
  const auto number = static_cast<uint32_t>(type);
  return is_value_type(number) ? kTypes[number].n_bytes : 0;
}

Value decode_scalar(ValueType type, const std::byte* bytes) noexcept {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kBool:
      return {type, uint64_t{load<uint8_t>(bytes)}};
    case ValueType::kU16:
      return {type, uint64_t{load<uint16_t>(bytes)}};
    case ValueType::kU32:
      return {type, uint64_t{load<uint32_t>(bytes)}};
    case ValueType::kU64:
      return {type, load<uint64_t>(bytes)};
    case ValueType::kI8:
      return {type, int64_t{load<int8_t>(bytes)}};
    case ValueType::kI16:
      return {type, int64_t{load<int16_t>(bytes)}};
    case ValueType::kI32:
      return {type, int64_t{load<int32_t>(bytes)}};
    case ValueType::kI64:
      return {type, load<int64_t>(bytes)};
    case ValueType::kF32:
      return {type, double{load<float>(bytes)}};
    case ValueType::kF64:
      return {type, load<double>(bytes)};
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  BILLOW_CHECK(value_type_bytes(type) != 0);  // REQUIRED: neither a string nor an array
  return {};
}

std::optional<uint64_t> as_uint(const Value& value) noexcept {
  if (value.type == ValueType::kBool) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  const auto* number = std::get_if<int64_t>(&value.data);
  if (number == nullptr || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<double> as_float(const Value& value) noexcept {
  if (value.type == ValueType::kBool) return std::nullopt;
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<bool> as_bool(const Value& value) noexcept {
  const auto* number = std::get_if<uint64_t>(&value.data);
  const auto* signed_number = std::get_if<int64_t>(&value.data);
  if (number != nullptr && *number <= 1) return *number == 1;
  if (signed_number != nullptr && (*signed_number == 0 || *signed_number == 1)) {
    return *signed_number == 1;
  }
  return std::nullopt;
}

std::optional<std::string_view> as_string(const Value& value) noexcept {
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return *text;
  return std::nullopt;
}

const Array* as_array(const Value& value) noexcept { return std::get_if<Array>(&value.data); }

double Array::number(uint64_t i) const noexcept {
  const Value value = element(*this, i);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return static_cast<double>(*number);
  return std::get<double>(value.data);
}

int64_t Array::integer(uint64_t i) const noexcept {
  const Value value = element(*this, i);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return saturated(*number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  return saturated(std::get<double>(value.data));
}

}  // namespace billow::gguf

// The values of GGUF metadata. Strings and arrays are views into the mapped file and live as long
// as its gguf::File. Plain data; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace billow::gguf {

// As numbered in the file.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// Whether the number stands for a ValueType.
bool is_value_type(uint32_t number) noexcept;

// "u8", "string", "array" ...
std::string_view value_type_name(ValueType type) noexcept;

// Bytes of one value in the file; 0 for strings and arrays, whose size varies.
size_t value_type_bytes(ValueType type) noexcept;

// Whether arrays of strings have their views: those of a vocabulary take longer than all the rest.
enum class StringArrays : uint8_t { kRead, kSkipped };

// A homogeneous array. Fixed-size elements stay packed in the file (`bytes`, not aligned); strings
// have their views.
struct Array {
  ValueType element_type = ValueType::kU8;
  uint64_t n = 0;
  std::span<const std::byte> bytes;       // elements of a fixed size, n * size
  std::vector<std::string_view> strings;  // element_type == kString; n of them, or skipped
  std::vector<Array> arrays;              // element_type == kArray

  // Element i as a number. REQUIRES: i < n and a numeric or bool element type.
  double number(uint64_t i) const noexcept;
  // The same as an integer: a fraction is cut off, what int64_t cannot hold becomes its nearest
  // value, NaN becomes 0.
  int64_t integer(uint64_t i) const noexcept;
};

struct Value {
  ValueType type = ValueType::kU8;
  // Unsigned integers and bool as uint64_t, signed as int64_t, floats as double.
  std::variant<uint64_t, int64_t, double, std::string_view, Array> data;
};

// Decodes one value of a fixed size. REQUIRES: value_type_bytes(type) bytes at `bytes`, of any
// alignment.
Value decode_scalar(ValueType type, const std::byte* bytes) noexcept;

// Conversions; nullopt when the value is of another kind or out of range.
std::optional<uint64_t> as_uint(const Value& value) noexcept;  // any integer type, not negative
std::optional<double> as_float(const Value& value) noexcept;   // any number
std::optional<bool> as_bool(const Value& value) noexcept;      // bool, or an integer 0 or 1
std::optional<std::string_view> as_string(const Value& value) noexcept;
const Array* as_array(const Value& value) noexcept;  // null for anything else

}  // namespace billow::gguf

// The values of GGUF metadata. Strings and arrays are views into the mapped file. They are valid
// while the gguf::File exists. Plain data; any thread may read.
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

// The values are the numbers in the file.
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

// Returns whether `number` is a ValueType.
bool is_value_type(uint32_t number) noexcept;

// Returns "u8", "string", "array" and so on.
std::string_view value_type_name(ValueType type) noexcept;

// Returns the bytes of one value in the file. Returns 0 for strings and arrays, which have no fixed
// size.
size_t value_type_bytes(ValueType type) noexcept;

// Whether to read the elements of string arrays. The strings of a vocabulary take longer to read
// than the rest of the header.
enum class StringArrays : uint8_t { kRead, kSkipped };

// An array of elements of one type. Elements of fixed size are packed bytes in the file, not
// aligned. Each string is a view.
struct Array {
  ValueType element_type = ValueType::kU8;
  uint64_t n = 0;
  std::span<const std::byte> bytes;       // n elements of fixed size
  std::vector<std::string_view> strings;  // n strings if element_type == kString; empty if skipped
  std::vector<Array> arrays;              // n arrays if element_type == kArray

  // Returns element i as a number. REQUIRES: i < n and a numeric or bool element type.
  double number(uint64_t i) const noexcept;
  // Returns element i as an integer. Truncates fractions, clamps to the range of int64_t and
  // returns 0 for NaN.
  int64_t integer(uint64_t i) const noexcept;
};

struct Value {
  ValueType type = ValueType::kU8;
  // Unsigned integers and bool are uint64_t, signed integers int64_t, floats double.
  std::variant<uint64_t, int64_t, double, std::string_view, Array> data;
};

// Decodes one value of a fixed size. REQUIRES: value_type_bytes(type) bytes at `bytes`, with any
// alignment.
Value decode_scalar(ValueType type, const std::byte* bytes) noexcept;

// Conversions. They return nullopt if the value has another type or is out of range.
std::optional<uint64_t> as_uint(const Value& value) noexcept;  // any non-negative integer
std::optional<double> as_float(const Value& value) noexcept;   // any number
std::optional<bool> as_bool(const Value& value) noexcept;      // bool, or an integer 0 or 1
std::optional<std::string_view> as_string(const Value& value) noexcept;
const Array* as_array(const Value& value) noexcept;  // null for any other type

}  // namespace billow::gguf

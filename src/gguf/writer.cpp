#include "gguf/writer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "gguf/atomic_file.h"
#include "gguf/tensor_type.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied without conversion");

namespace billow::gguf {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kVersion = 3;
constexpr uint64_t kDefaultAlignment = 32;

void put_bytes(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
  requires std::integral<T> || std::floating_point<T>
void put(Bytes& out, T number) {
  put_bytes(out, std::as_bytes(std::span(&number, 1)));
}

void put(Bytes& out, ValueType type) { put(out, static_cast<uint32_t>(type)); }

void put(Bytes& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  put_bytes(out, std::as_bytes(std::span(text)));
}

void put_array_head(Bytes& out, ValueType element_type, size_t n) {
  put(out, element_type);
  put(out, uint64_t{n});
}

void put(Bytes& out, const Array& array) {
  put_array_head(out, array.element_type, array.n);
  if (array.element_type == ValueType::kString) {
    BILLOW_CHECK(array.strings.size() == array.n);
    for (const std::string_view text : array.strings) put(out, text);
  } else if (array.element_type == ValueType::kArray) {
    BILLOW_CHECK(array.arrays.size() == array.n);
    for (const Array& inner : array.arrays) put(out, inner);
  } else {
    BILLOW_CHECK(array.bytes.size() == array.n * value_type_bytes(array.element_type));
    put_bytes(out, array.bytes);
  }
}

// Writes a number in the size of its type.
void put_number(Bytes& out, const Value& value) {
  if (const auto* real = std::get_if<double>(&value.data)) {
    if (value.type == ValueType::kF64) return put(out, *real);
    BILLOW_CHECK(value.type == ValueType::kF32);
    return put(out, static_cast<float>(*real));
  }
  // In little-endian order, the low bytes are the narrower form of a signed or unsigned number.
  std::array<std::byte, 8> bytes;
  if (const auto* integer = std::get_if<uint64_t>(&value.data)) {
    std::memcpy(bytes.data(), integer, sizeof bytes);
  } else {
    const auto* signed_integer = std::get_if<int64_t>(&value.data);
    BILLOW_CHECK(signed_integer != nullptr);
    std::memcpy(bytes.data(), signed_integer, sizeof bytes);
  }
  BILLOW_CHECK(value_type_bytes(value.type) != 0);
  put_bytes(out, std::span(bytes).first(value_type_bytes(value.type)));
}

size_t padding(uint64_t n_bytes, uint64_t alignment) {
  return static_cast<size_t>((alignment - n_bytes % alignment) % alignment);
}

}  // namespace

Writer::Pair& Writer::pair(std::string_view key, ValueType type) {
  BILLOW_CHECK(!key.empty());
  const auto found = std::ranges::find(pairs_, key, &Pair::key);
  if (found == pairs_.end()) return pairs_.emplace_back(Pair{std::string(key), type, {}});
  found->type = type;
  found->bytes.clear();
  return *found;
}

void Writer::set_uint(std::string_view key, uint32_t value) {
  put(pair(key, ValueType::kU32).bytes, value);
}

void Writer::set_uint64(std::string_view key, uint64_t value) {
  put(pair(key, ValueType::kU64).bytes, value);
}

void Writer::set_int(std::string_view key, int32_t value) {
  put(pair(key, ValueType::kI32).bytes, value);
}

void Writer::set_float(std::string_view key, float value) {
  put(pair(key, ValueType::kF32).bytes, value);
}

void Writer::set_bool(std::string_view key, bool value) {
  put(pair(key, ValueType::kBool).bytes, uint8_t{value});
}

void Writer::set_string(std::string_view key, std::string_view value) {
  put(pair(key, ValueType::kString).bytes, value);
}

void Writer::set_strings(std::string_view key, std::span<const std::string> values) {
  Bytes& out = pair(key, ValueType::kArray).bytes;
  put_array_head(out, ValueType::kString, values.size());
  for (const std::string& value : values) put(out, std::string_view(value));
}

void Writer::set_ints(std::string_view key, std::span<const int32_t> values) {
  Bytes& out = pair(key, ValueType::kArray).bytes;
  put_array_head(out, ValueType::kI32, values.size());
  put_bytes(out, std::as_bytes(values));
}

void Writer::set_floats(std::string_view key, std::span<const float> values) {
  Bytes& out = pair(key, ValueType::kArray).bytes;
  put_array_head(out, ValueType::kF32, values.size());
  put_bytes(out, std::as_bytes(values));
}

void Writer::set_bools(std::string_view key, const std::vector<bool>& values) {
  Bytes& out = pair(key, ValueType::kArray).bytes;
  put_array_head(out, ValueType::kBool, values.size());
  for (const bool value : values) put(out, uint8_t{value});
}

void Writer::set(std::string_view key, const Value& value) {
  Bytes& out = pair(key, value.type).bytes;
  if (value.type == ValueType::kString) {
    BILLOW_CHECK(as_string(value).has_value());
    put(out, *as_string(value));
  } else if (value.type == ValueType::kArray) {
    BILLOW_CHECK(as_array(value) != nullptr);
    put(out, *as_array(value));
  } else {
    put_number(out, value);
  }
}

void Writer::add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                        std::span<const std::byte> data) {
  add_tensor(name, type, shape, [data](const Sink& sink) { sink(data); });
  BILLOW_CHECK(data.size() == tensors_.back().n_bytes);
}

void Writer::add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                        Source source) {
  BILLOW_CHECK(!name.empty());
  BILLOW_CHECK(std::ranges::find(tensors_, name, &Pending::name) == tensors_.end());
  const TensorType* known = find_tensor_type(type);
  BILLOW_CHECK(known != nullptr);
  BILLOW_CHECK(!shape.empty() && shape.size() <= 4);
  BILLOW_CHECK(shape[0] % known->group_len == 0);
  uint64_t n_groups = shape[0] / known->group_len;
  for (const uint64_t size : shape.subspan(1)) n_groups *= size;
  BILLOW_CHECK(n_groups > 0);
  tensors_.push_back({std::string(name),
                      type,
                      {shape.begin(), shape.end()},
                      n_groups * known->group_bytes,
                      std::move(source)});
}

uint64_t Writer::alignment() const {
  const auto found = std::ranges::find(pairs_, "general.alignment", &Pair::key);
  if (found == pairs_.end()) return kDefaultAlignment;
  BILLOW_CHECK(value_type_bytes(found->type) != 0);
  const std::optional<uint64_t> value = as_uint(decode_scalar(found->type, found->bytes.data()));
  BILLOW_CHECK(value && std::has_single_bit(*value) && *value >= 8);
  return *value;
}

Bytes Writer::header() const {
  Bytes out;
  put_bytes(out, std::as_bytes(std::span("GGUF", 4)));
  put(out, kVersion);
  put(out, uint64_t{tensors_.size()});
  put(out, uint64_t{pairs_.size()});
  for (const Pair& pair : pairs_) {
    put(out, std::string_view(pair.key));
    put(out, pair.type);
    put_bytes(out, pair.bytes);
  }
  uint64_t offset = 0;
  for (const Pending& tensor : tensors_) {
    put(out, std::string_view(tensor.name));
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t size : tensor.shape) put(out, size);
    put(out, tensor.type);
    put(out, offset);
    offset += tensor.n_bytes + padding(tensor.n_bytes, alignment());
  }
  if (!tensors_.empty()) out.resize(out.size() + padding(out.size(), alignment()));
  return out;
}

void Writer::write_to(const Sink& sink) const {
  sink(header());
  const Bytes zeros(alignment());
  for (const Pending& tensor : tensors_) {
    uint64_t n_bytes = 0;
    tensor.source([&](std::span<const std::byte> piece) {
      n_bytes += piece.size();
      sink(piece);
    });
    BILLOW_CHECK(n_bytes == tensor.n_bytes);
    sink(std::span(zeros).first(padding(tensor.n_bytes, alignment())));
  }
}

uint64_t Writer::n_tensor_bytes() const noexcept {
  uint64_t sum = 0;
  for (const Pending& tensor : tensors_) sum += tensor.n_bytes;
  return sum;
}

Bytes Writer::to_bytes() const {
  Bytes out;
  write_to([&](std::span<const std::byte> piece) { put_bytes(out, piece); });
  return out;
}

void Writer::write(const std::string& path) const {
  AtomicFile file(path);
  write_to([&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

}  // namespace billow::gguf

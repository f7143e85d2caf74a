#include "convert/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/json_document.h"

namespace billow::convert {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDimensions = 8;

struct ElementType {
  std::string_view name;
  uint64_t n_bytes;
};
constexpr std::array kElementTypes{
    ElementType{"F32", 4},     ElementType{"F16", 2},     ElementType{"BF16", 2},
    ElementType{"F64", 8},     ElementType{"I64", 8},     ElementType{"I32", 4},
    ElementType{"I16", 2},     ElementType{"I8", 1},      ElementType{"U64", 8},
    ElementType{"U32", 4},     ElementType{"U16", 2},     ElementType{"U8", 1},
    ElementType{"F8_E4M3", 1}, ElementType{"F8_E5M2", 1}, ElementType{"F8_E8M0", 1},
    ElementType{"BOOL", 1},
};

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, origin + ": " + what);
}

struct Placed {
  SafeTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

const ElementType& element_type(const DocumentFields& fields) {
  const std::string name = fields.text("dtype").value_or("");
  const auto* known = std::ranges::find(kElementTypes, name, &ElementType::name);
  if (known == kElementTypes.end()) fields.refuse("dtype", "has an unknown type: '" + name + "'");
  return *known;
}

std::vector<uint64_t> counts(const DocumentFields& fields, const char* name) {
  const Document* value = fields.find(name);
  if (value == nullptr || !value->is_array() || value->size() > kMaxDimensions) {
    fields.refuse(name, "must be an array of at most 8 numbers");
  }
  std::vector<uint64_t> all;
  for (const Document& element : *value) {
    if (!element.is_number_unsigned()) fields.refuse(name, "must contain only whole numbers");
    all.push_back(element.get<uint64_t>());
  }
  return all;
}

Placed placed(const std::string& name, const Document& value, const std::string& origin) {
  const DocumentFields fields(value, origin + ": tensor '" + name + "'");
  const ElementType& type = element_type(fields);
  Placed result;
  result.tensor.name = name;
  result.tensor.dtype = type.name;
  result.tensor.shape = counts(fields, "shape");
  uint64_t n_bytes = type.n_bytes;
  for (const uint64_t size : result.tensor.shape) {
    if (__builtin_mul_overflow(n_bytes, size, &n_bytes)) fields.refuse("shape", "is too large");
  }
  const std::vector<uint64_t> offsets = counts(fields, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fields.refuse("data_offsets", "must be the begin and the end of the tensor");
  }
  if (offsets[1] - offsets[0] != n_bytes) {
    fields.refuse("data_offsets", "are " + std::to_string(offsets[1] - offsets[0]) +
                                      " bytes apart; the shape needs " + std::to_string(n_bytes));
  }
  result.begin = offsets[0];
  result.end = offsets[1];
  return result;
}

}  // namespace

uint64_t header_end(std::span<const std::byte> bytes, uint64_t file_bytes,
                    const std::string& origin) {
  uint64_t n_header = 0;
  if (bytes.size() < sizeof n_header) fail(origin, "too short for a safetensors file");
  for (size_t i = 0; i < sizeof n_header; ++i) {
    n_header |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  if (n_header > kMaxHeaderBytes) fail(origin, "not a safetensors file: its header is over 100 MB");
  if (n_header > file_bytes - sizeof n_header) {
    fail(origin, "cut off: its header extends beyond its end");
  }
  return sizeof n_header + n_header;
}

std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> bytes, uint64_t file_bytes,
                                          const std::string& origin) {
  const uint64_t data_begin = header_end(bytes, file_bytes, origin);
  if (bytes.size() < data_begin) fail(origin, "cut off: its header extends beyond its end");
  const uint64_t n_data = file_bytes - data_begin;
  const auto head = bytes.first(data_begin).subspan(sizeof(uint64_t));
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const Document header = parse_document(text, origin);
  if (!header.is_object()) fail(origin, "its header is not a JSON object");
  std::vector<Placed> all;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") all.push_back(placed(name, value, origin));
  }
  std::ranges::sort(all, {}, [](const Placed& one) { return std::pair(one.begin, one.end); });
  std::vector<SafeTensor> tensors;
  uint64_t at = 0;
  for (Placed& one : all) {
    if (one.begin != at) {
      fail(origin,
           "tensor '" + one.tensor.name + "' does not begin at the end of the tensor before it");
    }
    if (one.end > n_data) {
      fail(origin, "cut off: tensor '" + one.tensor.name + "' extends beyond its end");
    }
    one.tensor.begin = data_begin + one.begin;
    one.tensor.n_bytes = one.end - one.begin;
    at = one.end;
    tensors.push_back(std::move(one.tensor));
  }
  if (at != n_data) {
    fail(origin, std::to_string(n_data - at) + " bytes at its end belong to no tensor");
  }
  return tensors;
}

}  // namespace billow::convert

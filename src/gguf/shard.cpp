#include "gguf/shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "gguf/cursor.h"
#include "gguf/tensor_type.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied without conversion");

namespace billow::gguf {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;        // by the specification
constexpr uint64_t kMaxAlignment = 1 << 20;  // a larger one means a damaged file
constexpr uint64_t kMaxNameBytes = 65535;    // for keys by the specification; also used for tensors
constexpr int kMaxArrayDepth = 8;
// Max items reserved before they are read, because a count can be wrong.
constexpr uint64_t kMaxReserved = 4096;
constexpr uint64_t kMaxReservedStrings = uint64_t{1} << 19;  // 8 MiB; vocabularies have fewer

// First bytes of files that people mistake for GGUF.
struct Lookalike {
  std::string_view head;
  std::string_view what;
};
constexpr std::array kLookalikes = std::to_array<Lookalike>({
    {"tjgg", "an old GGML file; convert it to GGUF or download a newer version of the model"},
    {"fmgg", "an old GGML file; convert it to GGUF or download a newer version of the model"},
    {"lmgg", "an old GGML file; convert it to GGUF or download a newer version of the model"},
    {"version https://git-lfs", "a Git LFS pointer; fetch the model itself with git lfs pull"},
    {"<", "a web page or XML; download the model file itself"},
    {"PK\x03\x04", "a zip archive, perhaps a PyTorch model; convert it to GGUF"},
});

// A tensor in the header. The data's position is known only after the last tensor of the header.
struct Announced {
  std::string_view name;
  uint64_t offset;
  uint64_t n_bytes;
};

class Parser {
 public:
  // `bytes` are the beginning of a file of `file_bytes`, or the whole file.
  Parser(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view file,
         StringArrays string_arrays)
      : bytes_(bytes),
        file_bytes_(file_bytes),
        file_(file),
        string_arrays_(string_arrays),
        cursor_(bytes, file_bytes, file) {}

  Shard parse() {
    read_header();
    read_metadata();
    read_alignment();
    read_tensors();
    place_data();
    refuse_overlaps();
    return std::move(shard_);
  }

 private:
  void read_header();
  void read_metadata();
  void read_alignment();
  void read_tensors();
  TensorInfo read_tensor(uint64_t index);
  void read_shape(TensorInfo& tensor);
  uint64_t data_bytes(const TensorInfo& tensor);
  void place_data();
  void refuse_overlaps() const;

  // Reads a count or length: four bytes in version 1, eight bytes in later versions.
  uint64_t count(std::string_view what);
  // Throws if n items of at least `min_bytes` each do not fit in the rest of the file.
  void refuse_impossible(uint64_t n, uint64_t min_bytes, const std::string& what) const;
  std::string_view string(std::string_view what);
  std::string_view name(std::string_view what);
  ValueType value_type();
  Value value(ValueType type);
  Array array(int depth);
  void refuse_bad_bools(std::span<const std::byte> bools) const;

  Place tensor_place(size_t index) const { return {"tensor", index, announced_[index].name}; }
  uint64_t count_bytes() const noexcept { return shard_.version == 1 ? 4 : 8; }

  std::span<const std::byte> bytes_;
  uint64_t file_bytes_;
  std::string_view file_;
  StringArrays string_arrays_;
  Cursor cursor_;
  Shard shard_;
  uint64_t n_tensors_ = 0;
  uint64_t n_metadata_ = 0;
  std::vector<Announced> announced_;
};

std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Parser::read_header() {
  const std::string_view text = as_text(bytes_);
  if (!text.starts_with("GGUF")) {
    std::string what = "not a GGUF file";
    for (const Lookalike& lookalike : kLookalikes) {
      if (text.starts_with(lookalike.head)) what += " but " + std::string(lookalike.what);
    }
    throw file_error(file_, what);
  }
  cursor_.take(4, "the magic");
  shard_.version = cursor_.read<uint32_t>("the version");
  if ((shard_.version & 0xFFFF) == 0 && shard_.version != 0) {
    cursor_.fail("a big-endian GGUF file; Billow reads only little-endian files: convert it",
                 ErrorCode::kUnsupported);
  }
  if (shard_.version < 1 || shard_.version > 3) {
    cursor_.fail("GGUF version " + std::to_string(shard_.version) + "; Billow reads 1 to 3",
                 ErrorCode::kUnsupported);
  }
  n_tensors_ = count("the number of tensors");
  // Length of the name, name, number of dimensions, one dimension, type, offset.
  refuse_impossible(n_tensors_, count_bytes() + 1 + 4 + count_bytes() + 4 + 8, "tensors");
  n_metadata_ = count("the number of metadata entries");
  // Length of the key, key, type, value.
  refuse_impossible(n_metadata_, count_bytes() + 1 + 4 + 1, "metadata entries");
}

void Parser::read_metadata() {
  shard_.metadata.reserve(std::min(n_metadata_, kMaxReserved));
  std::vector<std::string_view> keys;
  for (uint64_t i = 0; i < n_metadata_; ++i) {
    cursor_.enter({"metadata entry", i, {}});
    const std::string_view key = name("the key");
    cursor_.enter({"metadata entry", i, key});
    const ValueType type = value_type();
    shard_.metadata.push_back({key, value(type)});
    keys.push_back(key);
  }
  shard_.keys = NameIndex(keys);
  if (const auto twice = shard_.keys.duplicate()) {
    cursor_.fail_at({"metadata entry", twice->second, keys[twice->second]},
                    "the key is a duplicate of entry " + std::to_string(twice->first) +
                        "; the file is damaged: download or convert it again");
  }
}

void Parser::read_alignment() {
  shard_.alignment = kDefaultAlignment;
  const Value* value = shard_.find("general.alignment");
  if (value == nullptr) return;
  const std::optional<uint64_t> alignment = as_uint(*value);
  if (!alignment || !std::has_single_bit(*alignment) || *alignment < kMinAlignment ||
      *alignment > kMaxAlignment) {
    const std::string got =
        alignment ? std::to_string(*alignment) : std::string(value_type_name(value->type));
    throw file_error(file_, "metadata key \"general.alignment\" is " + got +
                                "; it must be a power of two from " +
                                std::to_string(kMinAlignment) + " to " +
                                std::to_string(kMaxAlignment));
  }
  shard_.alignment = *alignment;
}

void Parser::read_tensors() {
  shard_.tensors.reserve(std::min(n_tensors_, kMaxReserved));
  for (uint64_t i = 0; i < n_tensors_; ++i) shard_.tensors.push_back(read_tensor(i));
}

TensorInfo Parser::read_tensor(uint64_t index) {
  cursor_.enter({"tensor", index, {}});
  const std::string_view tensor_name = name("the name");
  cursor_.enter({"tensor", index, tensor_name});
  TensorInfo tensor;
  tensor.name = tensor_name;
  read_shape(tensor);
  tensor.type = cursor_.read<uint32_t>("the type");
  const uint64_t n_bytes = data_bytes(tensor);
  const uint64_t offset = cursor_.read<uint64_t>("the offset");
  if (offset % shard_.alignment != 0) {
    cursor_.fail("offset " + std::to_string(offset) + " is not a multiple of the alignment " +
                 std::to_string(shard_.alignment));
  }
  announced_.push_back({tensor_name, offset, n_bytes});
  return tensor;
}

void Parser::read_shape(TensorInfo& tensor) {
  tensor.n_dims = cursor_.read<uint32_t>("the number of dimensions");
  if (tensor.n_dims < 1 || tensor.n_dims > tensor.shape.size()) {
    cursor_.fail(std::to_string(tensor.n_dims) + " dimensions; there must be 1 to 4");
  }
  uint64_t n_elements = 1;
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    tensor.shape[d] = count("a dimension");
    if (tensor.shape[d] == 0) cursor_.fail("dimension " + std::to_string(d) + " is 0");
    if (__builtin_mul_overflow(n_elements, tensor.shape[d], &n_elements) ||
        n_elements > uint64_t{std::numeric_limits<int64_t>::max()}) {
      cursor_.fail("dimension " + std::to_string(d) + " of " + std::to_string(tensor.shape[d]) +
                   " makes the tensor too large");
    }
  }
}

// Called after the type was read, so that errors name the offset of the type.
uint64_t Parser::data_bytes(const TensorInfo& tensor) {
  const TensorType* type = find_tensor_type(tensor.type);
  if (type == nullptr) {
    cursor_.fail("tensor type " + std::to_string(tensor.type) +
                     " is not supported; use another quantisation of the model",
                 ErrorCode::kUnsupported);
  }
  if (tensor.shape[0] % type->group_len != 0) {
    cursor_.fail("rows of " + std::to_string(tensor.shape[0]) + " elements cannot have type " +
                 std::string(type->name) + ", whose blocks hold " +
                 std::to_string(type->group_len));
  }
  uint64_t n_bytes = 0;
  if (__builtin_mul_overflow(tensor.n_elements() / type->group_len, uint64_t{type->group_bytes},
                             &n_bytes)) {
    cursor_.fail("the tensor is too large");
  }
  return n_bytes;
}

void Parser::place_data() {
  const uint64_t alignment = shard_.alignment;
  const uint64_t data_begin = (cursor_.offset() + alignment - 1) / alignment * alignment;
  for (size_t i = 0; i < announced_.size(); ++i) {
    const uint64_t offset = announced_[i].offset;
    const uint64_t n_bytes = announced_[i].n_bytes;
    uint64_t begin = 0;
    uint64_t end = 0;
    const bool overflow = __builtin_add_overflow(data_begin, offset, &begin) ||
                          __builtin_add_overflow(begin, n_bytes, &end);
    if (overflow || end > file_bytes_) {
      cursor_.fail_at(tensor_place(i), "its data of " + std::to_string(n_bytes) +
                                           " bytes at offset " + std::to_string(offset) +
                                           " ends beyond the end of the file at " +
                                           std::to_string(file_bytes_) +
                                           "; the file is truncated: download it again");
    }
    shard_.tensors[i].offset = begin;
    shard_.tensors[i].n_bytes = n_bytes;
    if (bytes_.size() == file_bytes_) shard_.tensors[i].data = bytes_.subspan(begin, n_bytes);
  }
}

void Parser::refuse_overlaps() const {
  std::vector<std::pair<uint64_t, size_t>> by_offset;
  for (const Announced& tensor : announced_)
    by_offset.emplace_back(tensor.offset, by_offset.size());
  std::ranges::sort(by_offset);
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const Announced& before = announced_[by_offset[i - 1].second];
    if (before.offset + before.n_bytes <= by_offset[i].first) continue;
    cursor_.fail_at(tensor_place(by_offset[i].second),
                    "its data overlaps that of tensor " + std::to_string(by_offset[i - 1].second) +
                        " " + quoted(before.name) + "; the file is damaged: download it again");
  }
}

uint64_t Parser::count(std::string_view what) {
  return shard_.version == 1 ? cursor_.read<uint32_t>(what) : cursor_.read<uint64_t>(what);
}

void Parser::refuse_impossible(uint64_t n, uint64_t min_bytes, const std::string& what) const {
  if (n <= cursor_.remaining() / min_bytes) return;
  cursor_.fail(std::to_string(n) + " " + what + " do not fit in the " +
               std::to_string(cursor_.remaining()) +
               " remaining bytes; the file is truncated or damaged: download it again");
}

std::string_view Parser::string(std::string_view what) {
  return as_text(cursor_.take(count(what), what));
}

std::string_view Parser::name(std::string_view what) {
  const std::string_view text = string(what);
  if (text.empty()) cursor_.fail(std::string(what) + " is empty");
  if (text.size() > kMaxNameBytes) {
    cursor_.fail(std::string(what) + " is " + std::to_string(text.size()) + " bytes long; " +
                 std::to_string(kMaxNameBytes) + " is the limit");
  }
  return text;
}

ValueType Parser::value_type() {
  const auto number = cursor_.read<uint32_t>("the value type");
  if (!is_value_type(number)) {
    cursor_.fail("value type " + std::to_string(number) + " does not exist");
  }
  return static_cast<ValueType>(number);
}

Value Parser::value(ValueType type) {
  if (type == ValueType::kString) return {type, string("the string")};
  if (type == ValueType::kArray) return {type, array(1)};
  const std::span<const std::byte> bytes = cursor_.take(value_type_bytes(type), "the value");
  if (type == ValueType::kBool) refuse_bad_bools(bytes);
  return decode_scalar(type, bytes.data());
}

Array Parser::array(int depth) {
  if (depth > kMaxArrayDepth) {
    cursor_.fail("arrays are nested deeper than " + std::to_string(kMaxArrayDepth));
  }
  Array array{.element_type = value_type(), .n = 0, .bytes = {}, .strings = {}, .arrays = {}};
  array.n = count("the array length");
  const size_t element_bytes = value_type_bytes(array.element_type);
  const bool is_string = array.element_type == ValueType::kString;
  // Min size of an element: its bytes, the length of a string, or the type and length of an array.
  const uint64_t min = element_bytes != 0 ? element_bytes : count_bytes() + (is_string ? 0 : 4);
  refuse_impossible(array.n, min, "array elements");
  if (is_string && string_arrays_ == StringArrays::kSkipped) {
    for (uint64_t i = 0; i < array.n; ++i) string("a string");
  } else if (is_string) {
    array.strings.reserve(std::min(array.n, kMaxReservedStrings));
    for (uint64_t i = 0; i < array.n; ++i) array.strings.push_back(string("a string"));
  } else if (array.element_type == ValueType::kArray) {
    for (uint64_t i = 0; i < array.n; ++i) array.arrays.push_back(this->array(depth + 1));
  } else {
    array.bytes = cursor_.take(array.n * element_bytes, "the array");
    if (array.element_type == ValueType::kBool) refuse_bad_bools(array.bytes);
  }
  return array;
}

void Parser::refuse_bad_bools(std::span<const std::byte> bools) const {
  const auto bad = std::ranges::find_if(bools, [](std::byte b) { return b > std::byte{1}; });
  if (bad != bools.end()) {
    cursor_.fail("a bool is " + std::to_string(std::to_integer<int>(*bad)) + "; it must be 0 or 1");
  }
}

}  // namespace

const Value* Shard::find(std::string_view key) const noexcept {
  const std::optional<size_t> i = keys.find(key);
  return i ? &metadata[*i].value : nullptr;
}

Shard parse_shard(std::span<const std::byte> bytes, std::string_view file,
                  StringArrays string_arrays) {
  return Parser(bytes, bytes.size(), file, string_arrays).parse();
}

Shard parse_header(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view file,
                   StringArrays string_arrays) {
  Shard shard = Parser(bytes, file_bytes, file, string_arrays).parse();
  for (TensorInfo& tensor : shard.tensors) tensor.data = {};
  return shard;
}

}  // namespace billow::gguf

#include "gguf/file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/regular_file.h"
#include "gguf/cursor.h"
#include "gguf/name_index.h"
#include "gguf/shard.h"
#include "gguf/split.h"

namespace billow::gguf {

struct File::State {
  std::string path;
  uint32_t version = 0;
  uint64_t n_bytes = 0;
  uint32_t n_files = 1;
  uint64_t alignment = 0;
  bool header_only = false;
  std::vector<std::string> paths;    // of all files; empty if parsed from memory
  std::vector<MappedFile> mappings;  // empty if parsed from memory or if only headers are read
  std::vector<std::unique_ptr<std::byte[]>> headers;  // instead of mappings
  std::vector<Entry> metadata;
  std::vector<TensorInfo> tensors;
  NameIndex keys;
  NameIndex names;  // of the tensors
  std::vector<bool>* found = nullptr;

  Shard read(const std::string& shard_path, StringArrays string_arrays);
  Shard read_header(const std::string& shard_path, StringArrays string_arrays);
  void adopt_first(Shard&& shard);
  void add_sibling(const std::string& sibling, uint64_t number, uint64_t count,
                   StringArrays string_arrays);
  void add_tensors(Shard& shard);
  void index_tensors();
  template <typename T>
  std::optional<T> get(std::string_view key, std::optional<T> (*convert)(const Value&) noexcept,
                       std::string_view wanted) const;
  template <typename T>
  T require(std::string_view key, const std::optional<T>& value) const;
};

namespace {

// Headers without a vocabulary are shorter than 1 MiB. Vocabularies of 150,000 to 260,000 tokens
// take 6 to 10 MB.
constexpr uint64_t kFirstHeaderBytes = uint64_t{1} << 20;
constexpr uint64_t kHeaderGrowth = 8;
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;  // per read of tensor data
constexpr uint64_t kMaxHeaderBytes = uint64_t{512} << 20;

Error wrong_type(const std::string& path, std::string_view key, const Value& value,
                 std::string_view wanted) {
  std::string got(value_type_name(value.type));
  if (const Array* array = as_array(value)) {
    got += " of " + std::string(value_type_name(array->element_type));
  }
  if (const auto* number = std::get_if<int64_t>(&value.data)) got += " " + std::to_string(*number);
  return file_error(path, "metadata key " + quoted(key) + " is of the type " + got + "; " +
                              std::string(wanted) + " is expected");
}

}  // namespace

Shard File::State::read(const std::string& shard_path, StringArrays string_arrays) {
  paths.push_back(shard_path);
  if (header_only) return read_header(shard_path, string_arrays);
  const MappedFile& mapping = mappings.emplace_back(shard_path);
  n_bytes += mapping.bytes().size();
  return parse_shard(mapping.bytes(), shard_path, string_arrays);
}

Shard File::State::read_header(const std::string& shard_path, StringArrays string_arrays) {
  const RegularFile file(shard_path);
  if (file.size_bytes() == 0) throw file_error(shard_path, "the file is empty");
  n_bytes += file.size_bytes();
  std::unique_ptr<std::byte[]>& buffer = headers.emplace_back();
  for (uint64_t n_wanted = kFirstHeaderBytes;;) {
    const uint64_t n = std::min(n_wanted, file.size_bytes());
    buffer = std::make_unique_for_overwrite<std::byte[]>(n);
    const std::span<std::byte> bytes(buffer.get(), n);
    if (file.read_at(0, bytes) < bytes.size())
      throw file_error(shard_path, "the file shrank while Billow read it");
    try {
      return parse_header(bytes, file.size_bytes(), shard_path, string_arrays);
    } catch (const MoreBytesNeeded& more) {
      if (more.n_bytes > kMaxHeaderBytes)
        throw file_error(shard_path, "the header is larger than 512 MiB", ErrorCode::kTooLarge);
      // Most headers that do not fit the first time fit the second time.
      n_wanted = std::max(more.n_bytes, std::min(kHeaderGrowth * n_wanted, kMaxHeaderBytes));
    }
  }
}

void File::State::adopt_first(Shard&& shard) {
  version = shard.version;
  alignment = shard.alignment;
  metadata = std::move(shard.metadata);
  keys = std::move(shard.keys);
  add_tensors(shard);
}

void File::State::add_sibling(const std::string& sibling, uint64_t number, uint64_t count,
                              StringArrays string_arrays) {
  if (!std::filesystem::exists(sibling)) {
    throw file_error(sibling,
                     "part " + std::to_string(number + 1) + " of the " + std::to_string(count) +
                         " files of the model is missing; put it next to part 1",
                     ErrorCode::kNotFound);
  }
  Shard shard = read(sibling, string_arrays);
  const SplitKeys sibling_keys = read_split_keys(shard, sibling);
  if (sibling_keys.number != number || sibling_keys.count != count) {
    throw file_error(sibling, "the file says it is part " +
                                  std::to_string(sibling_keys.number + 1) + " of " +
                                  std::to_string(sibling_keys.count) +
                                  ", but its name says another part; download it again");
  }
  ++n_files;
  add_tensors(shard);
}

void File::State::add_tensors(Shard& shard) {
  for (TensorInfo& tensor : shard.tensors) {
    tensor.file = n_files - 1;
    tensors.push_back(std::move(tensor));
  }
}

void File::State::index_tensors() {
  std::vector<std::string_view> all;
  all.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) all.push_back(tensor.name);
  names = NameIndex(all);
  if (const auto twice = names.duplicate()) {
    throw file_error(path, "tensor " + std::to_string(twice->second) + " " +
                               quoted(all[twice->second]) + ": the name is a duplicate of tensor " +
                               std::to_string(twice->first) +
                               "; the file is damaged: download or convert it again");
  }
}

template <typename T>
std::optional<T> File::State::get(std::string_view key,
                                  std::optional<T> (*convert)(const Value&) noexcept,
                                  std::string_view wanted) const {
  const std::optional<size_t> i = keys.find(key);
  if (!i) return std::nullopt;
  std::optional<T> converted = convert(metadata[*i].value);
  if (!converted) throw wrong_type(path, key, metadata[*i].value, wanted);
  return converted;
}

template <typename T>
T File::State::require(std::string_view key, const std::optional<T>& value) const {
  if (value) return *value;
  throw file_error(
      path, "metadata key " + quoted(key) + " is missing; the model was not converted completely");
}

File File::open(const std::string& path, StringArrays string_arrays) {
  auto state = std::make_unique<State>();
  state->path = path;
  return open(std::move(state), string_arrays);
}

File File::open_header(const std::string& path, StringArrays string_arrays) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->header_only = true;
  return open(std::move(state), string_arrays);
}

File File::open(std::unique_ptr<State> state, StringArrays string_arrays) {
  const std::string path = state->path;
  Shard first = state->read(path, string_arrays);
  const SplitKeys keys = read_split_keys(first, path);
  const std::vector<std::string> siblings = sibling_paths(keys, path);
  return joined(std::move(state), std::move(first), keys, siblings, string_arrays);
}

File File::open_split_headers(std::span<const std::string> paths, StringArrays string_arrays) {
  BILLOW_CHECK(!paths.empty());
  auto state = std::make_unique<State>();
  state->path = paths.front();
  state->header_only = true;
  Shard first = state->read(paths.front(), string_arrays);
  const SplitKeys keys = read_split_keys(first, paths.front());
  if (keys.number != 0)
    throw file_error(paths.front(), "the first file says it is part " +
                                        std::to_string(keys.number + 1) + " of " +
                                        std::to_string(keys.count) + "; start with part 1");
  if (keys.count != paths.size())
    throw file_error(paths.front(), "the model has " + std::to_string(keys.count) + " files, not " +
                                        std::to_string(paths.size()) +
                                        "; all of them are required");
  return joined(std::move(state), std::move(first), keys, paths.subspan(1), string_arrays);
}

File File::joined(std::unique_ptr<State> state, Shard first, const SplitKeys& keys,
                  std::span<const std::string> siblings, StringArrays string_arrays) {
  const std::string path = state->path;
  state->adopt_first(std::move(first));
  for (size_t i = 0; i < siblings.size(); ++i)
    state->add_sibling(siblings[i], i + 1, keys.count, string_arrays);
  const size_t n_tensors = state->tensors.size();
  if (keys.count > 1 && keys.n_tensors.value_or(n_tensors) != n_tensors) {
    throw file_error(path, "the " + std::to_string(keys.count) + " files hold " +
                               std::to_string(n_tensors) + " tensors, but split.tensors.count is " +
                               std::to_string(*keys.n_tensors) +
                               "; one file belongs to another model");
  }
  state->index_tensors();
  return File(std::move(state));
}

File File::parse(std::span<const std::byte> bytes, const std::string& name) {
  auto state = std::make_unique<State>();
  state->path = name;
  state->n_bytes = bytes.size();
  Shard shard = parse_shard(bytes, name);
  if (read_split_keys(shard, name).count > 1) {
    throw file_error(name, "the file is a part of a split; open it by its path",
                     ErrorCode::kUnsupported);
  }
  state->adopt_first(std::move(shard));
  state->index_tensors();
  return File(std::move(state));
}

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

const std::string& File::path() const noexcept { return state_->path; }
uint32_t File::version() const noexcept { return state_->version; }
uint64_t File::n_bytes() const noexcept { return state_->n_bytes; }
uint32_t File::n_files() const noexcept { return state_->n_files; }
uint64_t File::alignment() const noexcept { return state_->alignment; }

std::string File::versions() const {
  std::string lines;
  for (const MappedFile& mapping : state_->mappings) lines += mapping.version() + "\n";
  return lines;
}

void File::release(std::span<const std::byte> bytes) const noexcept {
  for (const MappedFile& mapping : state_->mappings) mapping.release(bytes);
}

std::span<const Entry> File::metadata() const noexcept { return state_->metadata; }
std::span<const TensorInfo> File::tensors() const noexcept { return state_->tensors; }

const Value* File::find(std::string_view key) const noexcept {
  const std::optional<size_t> i = state_->keys.find(key);
  return i ? &state_->metadata[*i].value : nullptr;
}

const TensorInfo* File::find_tensor(std::string_view name) const noexcept {
  const std::optional<size_t> i = state_->names.find(name);
  if (i && state_->found != nullptr) (*state_->found)[*i] = true;
  return i ? &state_->tensors[*i] : nullptr;
}

void File::read_tensor(const TensorInfo& tensor,
                       const std::function<void(std::span<const std::byte>)>& sink) const {
  BILLOW_CHECK(tensor.file < state_->paths.size());
  const RegularFile file(state_->paths[tensor.file]);
  std::vector<std::byte> piece(std::min(kPieceBytes, tensor.n_bytes));
  for (uint64_t done = 0; done < tensor.n_bytes;) {
    const std::span<std::byte> bytes =
        std::span(piece).first(std::min<uint64_t>(piece.size(), tensor.n_bytes - done));
    if (file.read_at(tensor.offset + done, bytes) < bytes.size())
      throw file_error(file.path(), "the file shrank while Billow read it");
    sink(bytes);
    done += bytes.size();
  }
}

void File::watch_lookups(std::vector<bool>* found) const noexcept {
  BILLOW_CHECK(found == nullptr || found->size() == state_->tensors.size());
  state_->found = found;
}

std::optional<uint64_t> File::get_uint(std::string_view key) const {
  return state_->get<uint64_t>(key, as_uint, "a non-negative integer");
}

std::optional<double> File::get_float(std::string_view key) const {
  return state_->get<double>(key, as_float, "a number");
}

std::optional<bool> File::get_bool(std::string_view key) const {
  return state_->get<bool>(key, as_bool, "a bool");
}

std::optional<std::string_view> File::get_string(std::string_view key) const {
  return state_->get<std::string_view>(key, as_string, "a string");
}

const Array* File::get_array(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const Array* array = as_array(*value);
  if (array == nullptr) throw wrong_type(path(), key, *value, "an array");
  return array;
}

const Array* File::get_string_array(std::string_view key) const {
  const Array* array = get_array(key);
  if (array != nullptr && array->element_type != ValueType::kString) {
    throw wrong_type(path(), key, *find(key), "an array of strings");
  }
  return array;
}

uint64_t File::require_uint(std::string_view key) const {
  return state_->require(key, get_uint(key));
}

double File::require_float(std::string_view key) const {
  return state_->require(key, get_float(key));
}

std::string_view File::require_string(std::string_view key) const {
  return state_->require(key, get_string(key));
}

}  // namespace billow::gguf

// A GGUF model on disk: metadata and tensors of one file or of all files of a split, mapped
// read-only, or their headers alone, read into memory. Every length and offset is checked against
// the file before it is used; a malformed file is an Error that names file, place and what is
// wrong. Immutable after open; any thread may read. Source of the format: the GGUF specification of
// ggml.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/value.h"

namespace billow::gguf {

struct TensorInfo {
  std::string name;
  uint32_t type = 0;                          // number of the file; see tensor_type.h
  uint32_t n_dims = 1;                        // 1 to 4
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] varies fastest: the row length
  uint32_t file = 0;                          // which file of the split holds the data
  uint64_t offset = 0;                        // of the data in that file, bytes
  uint64_t n_bytes = 0;                       // of the data
  // In the mapping, exactly the tensor's bytes; empty where the header alone was read.
  std::span<const std::byte> data;
  uint64_t n_elements() const noexcept { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

struct Entry {
  std::string_view key;
  Value value;
};

struct Shard;
struct SplitKeys;

class File {
 public:
  // Opens `path`, and all its siblings when it is the first of a split.
  // `string_arrays` may be skipped where nobody asks for the elements of one.
  static File open(const std::string& path, StringArrays string_arrays = StringArrays::kRead);
  // Reads what the files say of themselves, without mapping them: another program that shortens a
  // file later does no harm. Checks as much as open(). The tensors have no data. Throws Error
  // (kTooLarge) for a header of more than 512 MiB.
  static File open_header(const std::string& path,
                          StringArrays string_arrays = StringArrays::kRead);
  // The same for all files of a split, in the order of their parts, whatever they are called.
  static File open_split_headers(std::span<const std::string> paths,
                                 StringArrays string_arrays = StringArrays::kRead);
  // Parses one file from memory (no splits). `bytes` must outlive the File; `name` is for messages.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const noexcept;
  uint32_t version() const noexcept;
  uint64_t n_bytes() const noexcept;  // of all files together
  uint32_t n_files() const noexcept;  // more than 1 for a split
  // A line for each file: MappedFile::version(). Empty where the files are not mapped.
  std::string versions() const;
  uint64_t alignment() const noexcept;  // of tensor data in the (first) file, bytes

  // Gives the memory that holds `bytes` of a tensor back to the system; reading them again is
  // slower but gives the same. Does nothing where the file was parsed from memory.
  void release(std::span<const std::byte> bytes) const noexcept;

  std::span<const Entry> metadata() const noexcept;        // in file order
  const Value* find(std::string_view key) const noexcept;  // null if absent
  std::span<const TensorInfo> tensors() const noexcept;
  const TensorInfo* find_tensor(std::string_view name) const noexcept;  // null if absent
  // Hands the tensor's bytes to `sink`, piece after piece, read from its file without a mapping.
  // Throws Error that names the file when it cannot be read or became shorter, and what `sink`
  // throws. REQUIRES: `tensor` is one of tensors(), and the File was not parsed from memory.
  void read_tensor(const TensorInfo& tensor,
                   const std::function<void(std::span<const std::byte>)>& sink) const;
  // From now on find_tensor() sets the element of each tensor that it finds, for who wants to know
  // what a loader reads; null: no longer. One thread alone may ask for tensors meanwhile. REQUIRES:
  // an element for each of tensors(), which lives until then.
  void watch_lookups(std::vector<bool>* found) const noexcept;

  // Typed access. Absent: nullopt. Present with another type (or out of range): an Error naming the
  // key.
  std::optional<uint64_t> get_uint(
      std::string_view key) const;  // any integer type that is not negative
  std::optional<double> get_float(std::string_view key) const;  // any number
  std::optional<bool> get_bool(std::string_view key) const;     // bool or integer 0/1
  std::optional<std::string_view> get_string(std::string_view key) const;
  const Array* get_array(std::string_view key) const;         // null if absent
  const Array* get_string_array(std::string_view key) const;  // null if absent
  // The value, or an Error that names the missing key.
  uint64_t require_uint(std::string_view key) const;
  double require_float(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;

 private:
  struct State;
  // As open() and open_header() do.
  static File open(std::unique_ptr<State> state, StringArrays string_arrays);
  static File joined(std::unique_ptr<State> state, Shard first, const SplitKeys& keys,
                     std::span<const std::string> siblings, StringArrays string_arrays);
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace billow::gguf

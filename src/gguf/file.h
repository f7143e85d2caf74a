// A GGUF model on disk: the metadata and tensors of one file or of all files of a split. The files
// are mapped read-only, or only their headers are read into memory. Every length and offset is
// checked against the file before its use. A malformed file is an Error that names the file, the
// place and the fault. Immutable after open; any thread may read. Source of the format: the GGUF
// specification of ggml.
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
  uint32_t type = 0;                          // number in the file; see tensor_type.h
  uint32_t n_dims = 1;                        // 1 to 4
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // shape[0] varies fastest: the row length
  uint32_t file = 0;                          // index of the split's file that holds the data
  uint64_t offset = 0;                        // start of the data in that file, bytes
  uint64_t n_bytes = 0;                       // size of the data
  // The tensor's bytes in the mapping. Empty if only the header was read.
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
  // Opens `path`. If it is the first file of a split, opens all files of the split. A caller that
  // needs no elements of string arrays may skip them with `string_arrays`.
  static File open(const std::string& path, StringArrays string_arrays = StringArrays::kRead);
  // Reads only the headers, without a mapping, so that a file may shrink later without harm. Checks
  // as much as open(). The tensors have no data. Throws Error (kTooLarge) for a header of more than
  // 512 MiB.
  static File open_header(const std::string& path,
                          StringArrays string_arrays = StringArrays::kRead);
  // Does the same for all files of a split, in the order of their parts. The files may have any
  // names.
  static File open_split_headers(std::span<const std::string> paths,
                                 StringArrays string_arrays = StringArrays::kRead);
  // Parses one file in memory (no splits). `bytes` must outlive the File; `name` is for messages.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  const std::string& path() const noexcept;
  uint32_t version() const noexcept;
  uint64_t n_bytes() const noexcept;  // of all files together
  uint32_t n_files() const noexcept;  // more than 1 for a split
  // Returns a line for each file: MappedFile::version(). Empty if the files are not mapped.
  std::string versions() const;
  uint64_t alignment() const noexcept;  // of tensor data in the (first) file, bytes

  // Returns the memory of a tensor's `bytes` to the system. Later reads load the same bytes from
  // the file, which is slower. Has no effect if the file was parsed from memory.
  void release(std::span<const std::byte> bytes) const noexcept;

  std::span<const Entry> metadata() const noexcept;        // in file order
  const Value* find(std::string_view key) const noexcept;  // null if absent
  std::span<const TensorInfo> tensors() const noexcept;
  const TensorInfo* find_tensor(std::string_view name) const noexcept;  // null if absent
  // Reads the tensor from its file, without a mapping, and passes the bytes to `sink` piece by
  // piece. Throws Error that names the file if it cannot be read or became shorter. Errors of
  // `sink` pass through. REQUIRES: `tensor` is one of tensors(), and the File was not parsed from
  // memory.
  void read_tensor(const TensorInfo& tensor,
                   const std::function<void(std::span<const std::byte>)>& sink) const;
  // Records which tensors a loader looks up: find_tensor() sets the element of each tensor that it
  // finds. Null stops the recording. Meanwhile only one thread may call find_tensor(). REQUIRES:
  // `found` has an element for each of tensors() and lives until the recording stops.
  void watch_lookups(std::vector<bool>* found) const noexcept;

  // Typed access. Returns nullopt if the key is absent. Throws Error that names the key if the
  // value has another type or is out of range.
  std::optional<uint64_t> get_uint(std::string_view key) const;  // any non-negative integer
  std::optional<double> get_float(std::string_view key) const;   // any number
  std::optional<bool> get_bool(std::string_view key) const;      // bool or integer 0/1
  std::optional<std::string_view> get_string(std::string_view key) const;
  const Array* get_array(std::string_view key) const;         // null if absent
  const Array* get_string_array(std::string_view key) const;  // null if absent
  // Returns the value. Throws Error that names the key if it is missing.
  uint64_t require_uint(std::string_view key) const;
  double require_float(std::string_view key) const;
  std::string_view require_string(std::string_view key) const;

 private:
  struct State;
  // Completes open() and open_header().
  static File open(std::unique_ptr<State> state, StringArrays string_arrays);
  static File joined(std::unique_ptr<State> state, Shard first, const SplitKeys& keys,
                     std::span<const std::string> siblings, StringArrays string_arrays);
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace billow::gguf

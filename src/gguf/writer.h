// Writes GGUF version 3: set the metadata, add the tensors, write. Owns copies of the metadata and
// views of the tensors' data. Misuse is a bug of the caller and fails a CHECK: an empty key, a
// duplicate name, or data that does not fit its shape. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gguf/value.h"

namespace billow::gguf {

class Writer {
 public:
  // Sets a key. A key that is already set keeps its position. The writer uses "general.alignment".
  void set_uint(std::string_view key, uint32_t value);
  void set_uint64(std::string_view key, uint64_t value);
  void set_int(std::string_view key, int32_t value);
  void set_float(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_ints(std::string_view key, std::span<const int32_t> values);
  void set_floats(std::string_view key, std::span<const float> values);
  void set_bools(std::string_view key, const std::vector<bool>& values);
  // Copies a value of any type, arrays included.
  void set(std::string_view key, const Value& value);

  // Adds a tensor with one to four dimensions; `shape[0]` is the row length. `data` is exactly the
  // tensor's bytes. It must outlive all calls of to_bytes(), write_to() and write(). The file has
  // the tensors in the order of these calls.
  void add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                  std::span<const std::byte> data);

  using Sink = std::function<void(std::span<const std::byte>)>;
  // Passes the bytes of one tensor to the sink, piece by piece. Must produce the same bytes at each
  // call.
  using Source = std::function<void(const Sink&)>;
  // Adds a tensor whose bytes are produced while they are written.
  void add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                  Source source);

  // Returns the size of all added tensors, without padding.
  uint64_t n_tensor_bytes() const noexcept;

  std::vector<std::byte> to_bytes() const;
  // Passes the file to `sink`, piece by piece. If `sink` throws, the write ends with that error.
  void write_to(const Sink& sink) const;
  // Writes a temporary file next to `path` and renames it, so that a crash leaves the old or the
  // new file. Throws Error if the system cannot write; then no temporary file remains.
  void write(const std::string& path) const;

 private:
  struct Pair {
    std::string key;
    ValueType type;
    std::vector<std::byte> bytes;  // encoded value, without the type number
  };
  struct Pending {
    std::string name;
    uint32_t type;
    std::vector<uint64_t> shape;
    uint64_t n_bytes;
    Source source;
  };
  // Returns the pair of the key, with an empty value that the caller encodes.
  Pair& pair(std::string_view key, ValueType type);
  uint64_t alignment() const;
  std::vector<std::byte> header() const;  // everything before the data, padded if there is data

  std::vector<Pair> pairs_;
  std::vector<Pending> tensors_;
};

}  // namespace billow::gguf

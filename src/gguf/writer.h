// Writes GGUF version 3: set metadata, add tensors, write. Owns copies of the metadata, views of
// the tensors' data. A misuse (an empty key, a name twice, data that does not fit its shape) is a
// bug of the caller: a CHECK. One thread.
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
  // A key that was set before gets the new value at its old place. "general.alignment" is obeyed.
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
  // Copies any value as it was read (arrays too).
  void set(std::string_view key, const Value& value);

  // `shape[0]` is the row length, one to four sizes. `data` is exactly the tensor's bytes and is
  // copied only by to_bytes() and write(): it must live until then. Tensors lie in the file in the
  // order of adding.
  void add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                  std::span<const std::byte> data);

  using Sink = std::function<void(std::span<const std::byte>)>;
  // Hands the bytes of one tensor to the sink, piece after piece, the same at each call.
  using Source = std::function<void(const Sink&)>;
  // The same for a tensor whose bytes are made when they are written.
  void add_tensor(std::string_view name, uint32_t type, std::span<const uint64_t> shape,
                  Source source);

  // Of all tensors that were added, without what lies between them.
  uint64_t n_tensor_bytes() const noexcept;

  std::vector<std::byte> to_bytes() const;
  // Hands the file to `sink`, piece after piece; what that throws ends it.
  void write_to(const Sink& sink) const;
  // Writes beside `path` and renames, so that a crash leaves the old file or the new one. Throws
  // Error when the system cannot write; nothing is left behind then.
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
  // The pair of the key, its value empty and to be encoded.
  Pair& pair(std::string_view key, ValueType type);
  uint64_t alignment() const;
  std::vector<std::byte> header() const;  // all that stands before the data, padded if there is any

  std::vector<Pair> pairs_;
  std::vector<Pending> tensors_;
};

}  // namespace billow::gguf

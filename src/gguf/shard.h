// One parsed and validated file. A gguf::File consists of one shard, or of all shards of a split.
// All contents are views into the bytes, which must outlive the shard. Plain data; any thread may
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "gguf/name_index.h"

namespace billow::gguf {

struct Shard {
  uint32_t version = 0;
  uint64_t alignment = 0;  // alignment of tensor data, bytes
  std::vector<Entry> metadata;
  std::vector<TensorInfo> tensors;
  NameIndex keys;  // keys of `metadata`

  const Value* find(std::string_view key) const noexcept;  // null if absent
};

// Parses GGUF version 1, 2 or 3. `file` is for messages. Throws Error for malformed files:
// kUnsupported for big-endian files, other versions and unknown tensor types, else kInvalidInput.
Shard parse_shard(std::span<const std::byte> bytes, std::string_view file,
                  StringArrays string_arrays = StringArrays::kRead);

// Parses the header from the beginning of a file of `file_bytes`. `bytes` has at least
// kMinHeaderBytes, or the whole file. The tensors have no data. Throws MoreBytesNeeded (cursor.h)
// if the header is longer than `bytes`.
inline constexpr uint64_t kMinHeaderBytes = 64;
Shard parse_header(std::span<const std::byte> bytes, uint64_t file_bytes, std::string_view file,
                   StringArrays string_arrays = StringArrays::kRead);

}  // namespace billow::gguf

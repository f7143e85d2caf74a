// For tests: creates small GGUF files and adds them to a store as blobs. One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"
#include "store/store.h"

namespace billow::store {

// Returns a model of 24 parameters. A test can add metadata and tensors.
inline gguf::Writer sample_gguf(std::string_view architecture = "llama") {
  static const std::vector<std::byte> data(96, std::byte{0x5a});
  gguf::Writer writer;
  const std::string prefix(architecture);
  writer.set_string("general.architecture", architecture);
  writer.set_string("general.name", "a sample");
  writer.set_uint("general.file_type", 15);
  writer.set_uint(prefix + ".context_length", 2048);
  writer.set_uint(prefix + ".embedding_length", 6);
  writer.add_tensor("token_embd.weight", 0, std::vector<uint64_t>{6, 4}, data);
  return writer;
}

inline Digest add_file(Store& store, std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.update(bytes);
  const Digest digest = hasher.finish();
  store.add_blob(digest, [&](std::span<std::byte> part) {
    const size_t n = std::min(part.size(), bytes.size());
    std::ranges::copy(bytes.first(n), part.begin());
    bytes = bytes.subspan(n);
    return n;
  });
  return digest;
}

inline Digest add_gguf(Store& store, const gguf::Writer& writer) {
  return add_file(store, writer.to_bytes());
}

}  // namespace billow::store

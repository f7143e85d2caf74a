// Parses Hugging Face's safetensors files: eight bytes with the header length, the header in JSON,
// and the bytes of the tensors. The parser checks names, sizes and offsets before use. Each file is
// either rejected with an Error that begins with the file name, or its tensors are inside the file.
// Plain data, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace billow::convert {

struct SafeTensor {
  std::string name;
  std::string_view dtype;       // "F32", "BF16", ...
  std::vector<uint64_t> shape;  // the last dimension varies fastest; empty for a single number
  uint64_t begin = 0;           // offset in the file
  uint64_t n_bytes = 0;
};

// Returns the number of bytes at the beginning of a file that describe its content. `bytes` are the
// first eight bytes of the file, or all bytes of a shorter file.
uint64_t header_end(std::span<const std::byte> bytes, uint64_t file_bytes,
                    const std::string& origin);

// Returns all tensors in file order. `bytes` are the first bytes of the file, at least header_end()
// bytes. Throws Error for gaps or overlaps between tensors, for a header of more than 100 MB and
// for unknown types. The format's own library has the same rules.
std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> bytes, uint64_t file_bytes,
                                          const std::string& origin);

}  // namespace billow::convert

// A file of tensors as Hugging Face's safetensors has it: eight bytes with the length of a header,
// the header in JSON, and the tensors' bytes behind it. Names, sizes and places are checked before
// they are used, so that any file is either refused by an Error that begins with the file's name
// or gives tensors that lie within it. Plain data; any thread.
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
  std::vector<uint64_t> shape;  // the last varies fastest; empty for a single number
  uint64_t begin = 0;           // where its bytes lie in the file
  uint64_t n_bytes = 0;
};

// How many bytes at a file's beginning say what is in it. `bytes` are the first eight, or all where
// there are fewer.
uint64_t header_end(std::span<const std::byte> bytes, uint64_t file_bytes,
                    const std::string& origin);

// All tensors, in the order of their bytes. `bytes` are the first of the file's `file_bytes`, as
// many as header_end() says or more. As the format's own
// library does, refuses gaps and overlaps between tensors, a header of more than 100 MB and types
// that it does not know.
std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> bytes, uint64_t file_bytes,
                                          const std::string& origin);

}  // namespace billow::convert

// A file of tensors as Hugging Face's safetensors has it: eight bytes with the length of a header,
// the header in JSON, and the tensors' bytes behind it. Names, sizes and places are checked before
// they are used, so that any bytes are either refused by an Error that begins with the file's name
// or give tensors that lie within them. Plain data; any thread.
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
  std::string_view dtype;           // "F32", "BF16", ...
  std::vector<uint64_t> shape;      // the last varies fastest; empty for a single number
  std::span<const std::byte> data;  // exactly the tensor's bytes, of any alignment
};

// All tensors, in the order of their bytes. The tensors are views into `bytes`. As the format's own
// library does, refuses gaps and overlaps between tensors, a header of more than 100 MB and types
// that it does not know.
std::vector<SafeTensor> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& origin);

}  // namespace billow::convert

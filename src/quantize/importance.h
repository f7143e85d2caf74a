// Importance matrices: how large the inputs of a model's products are, column by column, so that
// encoders know which weights matter. Files of llama-imatrix are read, in its GGUF form and in its
// older one. Immutable after reading; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace billow::quantize {

struct Importance {
  // Of the tensor of that name: the mean of x^2 of each column of its input; of each matrix in turn
  // where it has several. Finite.
  std::map<std::string, std::vector<float>, std::less<>> entries;
  std::vector<std::string> datasets;  // what texts they come from
  uint32_t n_chunks = 0;              // and how much of them
};

// Reads either form. Throws Error (kInvalidInput) in one line that begins with `name`.
Importance parse_importance(std::span<const std::byte> bytes, const std::string& name);
Importance read_importance(const std::string& path);

}  // namespace billow::quantize

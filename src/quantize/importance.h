// Importance matrices: how large the inputs of a model's products are, column by column, so that
// encoders know which weights matter. Files of llama-imatrix are read and written, in its GGUF form
// and in its older one. Immutable after reading; any thread.
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

// What such a file is made of: sums that files of several texts may be merged by.
struct ImportanceSums {
  struct Entry {
    std::vector<float> sums;    // of x^2 of each column; of each matrix in turn
    std::vector<float> counts;  // of rows: one for all matrices, or one for each
  };
  std::map<std::string, Entry, std::less<>> entries;
  std::string dataset;
  uint32_t n_chunks = 0;
  uint32_t chunk_size = 512;  // tokens
};

// The bytes of a file in either form. The older one has no place for entries without a row.
std::vector<std::byte> gguf_form(const ImportanceSums& sums);
std::vector<std::byte> older_form(const ImportanceSums& sums);

}  // namespace billow::quantize

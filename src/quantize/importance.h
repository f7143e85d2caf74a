// Importance matrices: how large each column of the inputs of a model's products is. They show
// encoders which weights matter. Reads and writes files of llama-imatrix, in the GGUF form and in
// the older form. An Importance is immutable after reading and thread-safe.
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
  // By tensor name: the mean of x^2 of each column of the tensor's input. If the tensor has several
  // matrices, their columns follow one another. All numbers are from 0 to 1e20.
  std::map<std::string, std::vector<float>, std::less<>> entries;
  std::vector<std::string> datasets;  // the texts that the numbers come from
  uint32_t n_chunks = 0;              // how many chunks of these texts were evaluated
};

// Reads either form. Throws Error (kInvalidInput) with one line that begins with `name`.
Importance parse_importance(std::span<const std::byte> bytes, const std::string& name);
Importance read_importance(const std::string& path);

// The contents of an importance file before the division: sums, so that files of several texts can
// be merged.
struct ImportanceSums {
  struct Entry {
    std::vector<float> sums;    // of x^2 of each column, one matrix after the other
    std::vector<float> counts;  // numbers of rows: one for all matrices, or one for each
  };
  std::map<std::string, Entry, std::less<>> entries;
  std::string dataset;
  uint32_t n_chunks = 0;
  uint32_t chunk_size = 512;  // tokens
};

// Returns the bytes of a file in the GGUF or the older form. The older form leaves out entries
// without rows.
std::vector<std::byte> gguf_form(const ImportanceSums& sums);
std::vector<std::byte> older_form(const ImportanceSums& sums);

}  // namespace billow::quantize

// Writes a file of vectors, row by row, as a PartFile. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cli/client/part_file.h"

namespace billow::cli {

enum class VectorFormat : uint8_t {
  kJsonLines,  // {"index":ROW,"embedding":[...]}
  kNumpy,      // a .npy array of float32, [rows][values]
};

// Returns the format for a file name: kNumpy for .npy, else kJsonLines. Throws Error (kUnsupported)
// for .parquet.
VectorFormat vector_format_of(const std::string& path);

// Appends a line of JSON, with its line end.
void append_json_line(std::string& text, uint64_t row, std::span<const float> vector);

class VectorFile {
 public:
  // Resumes or starts over, as a PartFile.
  VectorFile(std::string path, VectorFormat format, std::string job);

  const PartFile& part() const noexcept { return part_; }
  uint64_t n_rows() const noexcept { return part_.n_rows(); }
  uint64_t n_values() const noexcept { return n_values_; }

  // Appends the vector of the next row. Throws Error if its size differs from earlier vectors.
  void append(uint64_t row, std::span<const float> vector);
  // These do the same as those of PartFile.
  void mark(uint64_t input_offset);
  void checkpoint() { part_.checkpoint(); }
  void publish();

 private:
  PartFile part_;
  const VectorFormat format_;
  uint64_t n_values_ = 0;
};

}  // namespace billow::cli

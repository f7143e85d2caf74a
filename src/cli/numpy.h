// Writes arrays of float32 in NumPy's .npy format: version 1.0, little-endian, row by row. The
// functions are pure; NumpyRows is not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace billow::cli {

// Returns the 128 bytes before the values of an array of shape [n_rows][n_values].
std::string numpy_header(uint64_t n_rows, uint64_t n_values);

// Appends the values to `bytes`, 4 bytes each.
void append_numpy_values(std::string& bytes, std::span<const float> values);

// Writes an array row by row. Buffers at most 1 MiB and one row before it calls the sink.
class NumpyRows {
 public:
  // Receives the bytes of the file, piece by piece. Its exceptions reach the caller of append() and
  // flush().
  using Sink = std::function<void(std::span<const std::byte>)>;
  NumpyRows(uint64_t n_rows, uint64_t n_values, Sink sink);

  // Appends a row. REQUIRES: row.size() == n_values; n_rows calls in total.
  void append(std::span<const float> row);
  // Passes the buffered bytes to the sink. Call it after the last row.
  void flush();

 private:
  Sink sink_;
  std::string buffer_;
};

}  // namespace billow::cli

// Arrays of float32 as NumPy keeps them in .npy files: version 1.0, little-endian, by rows. Pure
// but for the sink of NumpyRows; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace billow::cli {

// The 128 bytes before the values of an array [n_rows][n_values].
std::string numpy_header(uint64_t n_rows, uint64_t n_values);

// Appends the bytes of the values.
void append_numpy_values(std::string& bytes, std::span<const float> values);

// An array that is written row by row. At most 1 MiB and one row wait for the sink.
class NumpyRows {
 public:
  // Gets the bytes of the file, piece after piece; what it throws goes to the caller.
  using Sink = std::function<void(std::span<const std::byte>)>;
  NumpyRows(uint64_t n_rows, uint64_t n_values, Sink sink);

  // REQUIRES: n_values of them, as often as there are rows.
  void append(std::span<const float> row);
  // Hands over what waits; to be called behind the last row.
  void flush();

 private:
  Sink sink_;
  std::string buffer_;
};

}  // namespace billow::cli

#include "cli/numpy.h"

#include <bit>
#include <utility>

namespace billow::cli {
namespace {

constexpr size_t kHeaderBytes = 128;
constexpr size_t kBufferBytes = size_t{1} << 20;

}  // namespace

std::string numpy_header(uint64_t n_rows, uint64_t n_values) {
  constexpr size_t kBeforeText = 10;
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(kHeaderBytes - kBeforeText);
  header += '\x00';
  header += "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(n_rows) + ", " +
            std::to_string(n_values) + "), }";
  header.resize(kHeaderBytes - 1, ' ');
  return header + '\n';
}

void append_numpy_values(std::string& bytes, std::span<const float> values) {
  bytes.reserve(bytes.size() + 4 * values.size());
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (const int shift : {0, 8, 16, 24}) bytes += static_cast<char>(bits >> shift & 255);
  }
}

NumpyRows::NumpyRows(uint64_t n_rows, uint64_t n_values, Sink sink)
    : sink_(std::move(sink)), buffer_(numpy_header(n_rows, n_values)) {}

void NumpyRows::append(std::span<const float> row) {
  append_numpy_values(buffer_, row);
  if (buffer_.size() >= kBufferBytes) flush();
}

void NumpyRows::flush() {
  sink_(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

}  // namespace billow::cli

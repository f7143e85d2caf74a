// Checks the rows of a tensor, encodes them in the type of the new file and passes them on. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "quant/type.h"

namespace billow::convert {

// All functions throw Error (kInvalidInput) that names the tensor for a number that is NaN,
// infinite or too large for the type. Limits such as NAME.input_min may be infinite.
class RowSink {
 public:
  // `name` is the name in the GGUF file. REQUIRES: `sink` outlives this object.
  RowSink(std::string name, quant::Type type, const gguf::Writer::Sink& sink);

  quant::Type type() const noexcept { return type_; }
  // Passes on rows that have the type of the file already.
  void copy(std::span<const std::byte> rows);
  // Encodes rows. May overwrite `values`. REQUIRES: row_len is a multiple of the type's group.
  void encode(std::span<float> values, size_t row_len);

 private:
  void write_limits(std::span<const float> values);

  const std::string name_;
  const quant::Type type_;
  const bool may_be_infinite_;
  const gguf::Writer::Sink& sink_;
  std::vector<std::byte> encoded_;
};

}  // namespace billow::convert

// Writes metadata keys with the architecture's name as prefix. A view. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/writer.h"

namespace billow::convert {

class KeyWriter {
 public:
  KeyWriter(gguf::Writer& writer, std::string_view architecture)
      : writer_(writer), prefix_(std::string(architecture) + ".") {}

  void count(std::string_view key, uint64_t value) {
    writer_.set_uint(name(key), static_cast<uint32_t>(value));
  }
  void number(std::string_view key, double value) {
    writer_.set_float(name(key), static_cast<float>(value));
  }
  void flag(std::string_view key, bool value) { writer_.set_bool(name(key), value); }
  void text(std::string_view key, std::string_view value) { writer_.set_string(name(key), value); }
  void counts(std::string_view key, std::span<const uint32_t> values) {
    const std::vector<int32_t> signed_values(values.begin(), values.end());
    writer_.set_ints(name(key), signed_values);
  }
  void numbers(std::string_view key, std::span<const float> values) {
    writer_.set_floats(name(key), values);
  }
  void flags(std::string_view key, const std::vector<bool>& values) {
    writer_.set_bools(name(key), values);
  }
  gguf::Writer& writer() noexcept { return writer_; }  // for keys without the prefix

 private:
  std::string name(std::string_view key) const { return prefix_ + std::string(key); }

  gguf::Writer& writer_;
  const std::string prefix_;
};

}  // namespace billow::convert

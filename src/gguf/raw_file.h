// For tests: builds a GGUF file item by item, valid or invalid. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "gguf/value.h"

namespace billow::gguf {

class RawFile {
 public:
  // Writes the magic and the version.
  explicit RawFile(uint32_t version = 3) : version_(version) { chars("GGUF").number(version); }

  template <typename T>
  RawFile& number(T value) {
    const auto view = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), view.begin(), view.end());
    return *this;
  }
  RawFile& chars(std::string_view text) {
    const auto view = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), view.begin(), view.end());
    return *this;
  }
  // Adds a count or a length: 4 bytes in version 1, 8 bytes in later versions.
  RawFile& count(uint64_t n) {
    return version_ == 1 ? number(static_cast<uint32_t>(n)) : number(n);
  }
  RawFile& counts(uint64_t n_tensors, uint64_t n_metadata) {
    return count(n_tensors).count(n_metadata);
  }
  RawFile& text(std::string_view text) { return count(text.size()).chars(text); }
  // Adds a key and the type of its value. The value must follow.
  RawFile& key(std::string_view key, ValueType type) {
    return text(key).number(static_cast<uint32_t>(type));
  }
  RawFile& array(ValueType element_type, uint64_t n) {
    return number(static_cast<uint32_t>(element_type)).count(n);
  }
  RawFile& tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type,
                  uint64_t offset) {
    text(name).number(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) count(size);
    return number(type).number(offset);
  }
  RawFile& pad(size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  RawFile& data(size_t n_bytes, uint8_t fill = 0) {
    bytes_.insert(bytes_.end(), n_bytes, std::byte{fill});
    return *this;
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  uint32_t version_;
  std::vector<std::byte> bytes_;
};

}  // namespace billow::gguf

// Reads a model's metadata: keys with the architecture's prefix, and numbers that a file gives once
// or for each layer. Borrows the file. Errors name the file, the key and the problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"

namespace billow::arch {

// Limits far above any real model, so that sums and products of sizes cannot overflow.
inline constexpr size_t kMaxLayers = 4096;
inline constexpr size_t kMaxWidth = size_t{1} << 24;
inline constexpr size_t kMaxContext = size_t{1} << 30;

class Metadata {
 public:
  explicit Metadata(const gguf::File& file);

  const gguf::File& file() const noexcept { return *file_; }
  const std::string& architecture() const noexcept { return architecture_; }
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  bool has(std::string_view name) const { return file_->find(key(name)) != nullptr; }

  // Returns a number within 1..max.
  size_t size(std::string_view name, size_t max) const;
  // Returns a number within 1..max, or `fallback` if the key is missing.
  size_t size_or(std::string_view name, size_t fallback, size_t max) const;
  // Returns a number within 0..max; 0 if the key is missing.
  size_t count(std::string_view name, size_t max) const;
  double real_or(std::string_view name, double fallback) const;      // finite
  double positive_or(std::string_view name, double fallback) const;  // above 0 and finite
  double positive(std::string_view name) const;
  bool flag_or(std::string_view name, bool fallback) const;

  // Returns a number within 0..max for each of n layers, from one number or from an array with at
  // least n. Returns `fallback` for all layers if the key is missing; without one, the key is
  // required.
  std::vector<size_t> per_layer(std::string_view name, size_t n, size_t max,
                                std::optional<size_t> fallback = {}) const;
  // Returns a number for each of n layers. The key has no prefix.
  std::vector<double> reals_per_layer(const std::string& whole_key, size_t n) const;
  // Returns a flag for each of n layers from an array; empty if the key is missing or not an array.
  std::vector<bool> flags(std::string_view name, size_t n) const;

  // Throws an Error about a key with an invalid value.
  [[noreturn]] void refuse(std::string_view name, const std::string& why) const;

 private:
  const gguf::File* file_;
  std::string architecture_;
};

}  // namespace billow::arch

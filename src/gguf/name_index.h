// Positions by name: sorted once, so that a hostile file cannot make look-ups slow as it could a
// hash table. The names must outlive the index. Immutable; any thread may read.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace billow::gguf {

class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(const std::vector<std::string_view>& names);

  std::optional<size_t> find(std::string_view name) const noexcept;

  // Two positions of one name, the earlier first; nullopt when all names differ.
  std::optional<std::pair<size_t, size_t>> duplicate() const noexcept;

 private:
  std::vector<std::pair<std::string_view, size_t>> sorted_;
};

}  // namespace billow::gguf

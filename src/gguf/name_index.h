// Finds the position of a name. Uses a sorted list, because a hostile file could make look-ups in a
// hash table slow. The names must outlive the index. Immutable; any thread may read.
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

  // Returns two positions with the same name, the earlier first. Returns nullopt if all names
  // differ.
  std::optional<std::pair<size_t, size_t>> duplicate() const noexcept;

 private:
  std::vector<std::pair<std::string_view, size_t>> sorted_;
};

}  // namespace billow::gguf

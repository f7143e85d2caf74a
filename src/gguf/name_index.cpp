#include "gguf/name_index.h"

#include <algorithm>

namespace billow::gguf {
namespace {

using Pair = std::pair<std::string_view, size_t>;

}  // namespace

NameIndex::NameIndex(const std::vector<std::string_view>& names) {
  sorted_.reserve(names.size());
  for (const std::string_view name : names) sorted_.emplace_back(name, sorted_.size());
  std::ranges::sort(sorted_);
}

std::optional<size_t> NameIndex::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(sorted_, name, {}, &Pair::first);
  if (found == sorted_.end() || found->first != name) return std::nullopt;
  return found->second;
}

std::optional<std::pair<size_t, size_t>> NameIndex::duplicate() const noexcept {
  const auto found = std::ranges::adjacent_find(sorted_, {}, &Pair::first);
  if (found == sorted_.end()) return std::nullopt;
  return std::pair{found->second, std::next(found)->second};
}

}  // namespace billow::gguf

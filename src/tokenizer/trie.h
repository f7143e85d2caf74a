// A trie over bytes: finds the texts of a set that begin at a place. Special tokens, WordPiece,
// Unigram and RWKV use it. One thread builds it; then reading is thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/pair_map.h"

namespace billow::tokenizer {

class Trie {
 public:
  static constexpr uint32_t kNone = PairMap::kAbsent;
  static constexpr uint32_t kRoot = 0;

  Trie();

  // Adds a text. The first value of a text stays; empty texts are ignored.
  void insert(std::string_view text, uint32_t value);

  // Returns the node after `byte`, or kNone.
  uint32_t child(uint32_t node, char byte) const noexcept {
    const auto b = static_cast<uint8_t>(byte);
    return node == kRoot ? first_[b] : edges_.find(node, b);
  }

  // Returns the value of the text that ends at `node`, or kNone.
  uint32_t value(uint32_t node) const noexcept { return values_[node]; }

  struct Match {
    uint32_t value = kNone;  // kNone: no text matches
    size_t n_bytes = 0;
  };
  // Returns the longest text, of at most `limit` bytes, that is a prefix of `text`.
  Match longest_prefix(std::string_view text, size_t limit = SIZE_MAX) const noexcept;

 private:
  std::array<uint32_t, 256> first_;  // edges of the root, where every search begins
  PairMap edges_;
  std::vector<uint32_t> values_;
};

}  // namespace billow::tokenizer

// A trie over bytes: which of a set of texts begin at a place. Special tokens, WordPiece,
// Unigram and RWKV match with it. Build it on one thread, then any thread may read.
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

  // The first value of a text stays; empty texts are ignored.
  void insert(std::string_view text, uint32_t value);

  // The node after `byte`, or kNone.
  uint32_t child(uint32_t node, char byte) const noexcept {
    const auto b = static_cast<uint8_t>(byte);
    return node == kRoot ? first_[b] : edges_.find(node, b);
  }

  // The value of the text that ends at `node`, or kNone.
  uint32_t value(uint32_t node) const noexcept { return values_[node]; }

  struct Match {
    uint32_t value = kNone;  // kNone: no text matches
    size_t n_bytes = 0;
  };
  // The longest text, of at most `limit` bytes, with which `text` begins.
  Match longest_prefix(std::string_view text, size_t limit = SIZE_MAX) const noexcept;

 private:
  std::array<uint32_t, 256> first_;  // edges of the root, where every search begins
  PairMap edges_;
  std::vector<uint32_t> values_;
};

}  // namespace billow::tokenizer

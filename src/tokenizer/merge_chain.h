// The loop of all byte-pair encodings: a chain of symbols whose best adjacent pair is merged until
// no pair is left. Takes O(n log n) through a heap. For one thread. Words share one chain, which
// keeps its memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace billow::tokenizer {

// A symbol of the chain: its number in the merges, and the bytes [begin, end) of the word that it
// covers.
struct Symbol {
  uint32_t id;
  uint32_t begin;
  uint32_t end;
};

// `Rule` decides about a pair: bool find(const Symbol& left, const Symbol& right, Key& key,
// uint32_t& merged). It returns whether the two symbols merge, the merged symbol, and the key. The
// pair with the smallest key merges first, and among equal keys the leftmost.
template <typename Key>
class MergeChain {
 public:
  void clear() noexcept { links_.clear(); }
  bool empty() const noexcept { return links_.empty(); }

  void push(Symbol symbol) {
    const auto index = static_cast<uint32_t>(links_.size());
    links_.push_back({symbol, index - 1, index + 1});
  }

  template <typename Rule>
  void merge(const Rule& rule) {
    heap_.clear();
    for (uint32_t i = 0; i + 1 < links_.size(); ++i) consider(rule, i, i + 1);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later{});
      const Candidate best = heap_.back();
      heap_.pop_back();
      if (!is_current(best)) continue;
      apply(best);
      const Link& link = links_[best.left];
      if (link.previous < links_.size()) consider(rule, link.previous, best.left);
      if (link.next < links_.size()) consider(rule, best.left, link.next);
    }
  }

  // Calls visit(symbol) for the remaining symbols, in order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (size_t i = 0; i < links_.size(); i = links_[i].next) visit(links_[i].symbol);
  }

 private:
  // The neighbours are indices. An index that is out of range ends the chain (index -1 wraps to the
  // largest number).
  struct Link {
    Symbol symbol;
    uint32_t previous;
    uint32_t next;
  };
  struct Candidate {
    Key key;
    uint32_t left;
    uint32_t merged;
    uint32_t left_end;  // ends of the two symbols when the pair was found
    uint32_t right_end;
  };
  struct Later {
    bool operator()(const Candidate& a, const Candidate& b) const noexcept {
      return b.key < a.key || (!(a.key < b.key) && b.left < a.left);
    }
  };

  template <typename Rule>
  void consider(const Rule& rule, uint32_t left, uint32_t right) {
    const Symbol& a = links_[left].symbol;
    const Symbol& b = links_[right].symbol;
    Candidate candidate{Key{}, left, 0, a.end, b.end};
    if (!rule.find(a, b, candidate.key, candidate.merged)) return;
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  // Returns whether the pair is unchanged. Symbols only grow, so the pair is unchanged if both
  // symbols have the same ends. A symbol that was merged into its neighbour covers nothing.
  bool is_current(const Candidate& candidate) const noexcept {
    const Link& left = links_[candidate.left];
    return left.symbol.begin < left.symbol.end && left.symbol.end == candidate.left_end &&
           left.next < links_.size() && links_[left.next].symbol.end == candidate.right_end;
  }

  void apply(const Candidate& candidate) noexcept {
    Link& left = links_[candidate.left];
    Link& right = links_[left.next];
    left.symbol.id = candidate.merged;
    left.symbol.end = right.symbol.end;
    right.symbol.begin = right.symbol.end;
    left.next = right.next;
    if (left.next < links_.size()) links_[left.next].previous = candidate.left;
  }

  std::vector<Link> links_;
  std::vector<Candidate> heap_;
};

}  // namespace billow::tokenizer

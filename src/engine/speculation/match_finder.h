// Finds where the end of a text occurred before, among the tokens that were added last: chains of
// positions with equal hashes, as compressors of the LZ77 kind have them. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace billow::engine {

// An occurrence of the last tokens of a text.
struct Match {
  uint32_t next = 0;  // the position behind it: its token may be the next one of the text
  size_t length = 0;  // tokens
};

class MatchFinder {
 public:
  static constexpr size_t kMinMatch = 2;   // tokens, of find()
  static constexpr size_t kMaxMatch = 32;  // longer matches count as this long

  // Remembers the last max_window tokens.
  explicit MatchFinder(size_t max_window);

  void add(int32_t token);
  // Ends a text: no match and no continuation crosses a border.
  void add_border() { add(kBorder); }

  // The longest match of the end of `text` that some token follows; of equally long ones, the
  // latest. It looks at a bounded number of candidates. `text` may be what was added last, or not.
  std::optional<Match> find(std::span<const int32_t> text) const;
  // The longest match, of at least one token, whose next position is within `radius` of `center`;
  // of equally long ones, the first at or behind it.
  std::optional<Match> find_near(std::span<const int32_t> text, uint32_t center,
                                 size_t radius) const;

  // Positions of the tokens that are remembered: they count up from 0 as tokens are added. After
  // 2^32 - 1 tokens all is forgotten and they begin again.
  uint32_t begin() const noexcept { return end_ - static_cast<uint32_t>(tokens_.size()); }
  uint32_t end() const noexcept { return end_; }
  // The token at a position; nullopt for a border. REQUIRES: begin() <= position < end().
  std::optional<int32_t> at(size_t position) const noexcept;

 private:
  static constexpr int32_t kBorder = -1;
  static constexpr uint32_t kNone = 0;  // in chains, which hold positions + 1

  // Positions whose last `order` tokens hash alike, the latest first.
  struct Chain {
    size_t order = 0;
    std::vector<uint32_t> heads{};     // [hash]: the latest of them + 1
    std::vector<uint32_t> previous{};  // [position % window]: the one before + 1
  };

  int32_t token(size_t position) const noexcept { return tokens_[position % max_window_]; }
  size_t match_length(std::span<const int32_t> text, uint32_t next) const noexcept;
  void link(Chain& chain, uint32_t position);
  void widen(Chain& chain);
  void clear();
  std::optional<Match> find_in(const Chain& chain, std::span<const int32_t> text) const;

  size_t max_window_;
  std::vector<int32_t> tokens_;  // a ring once it is full
  std::array<Chain, 2> chains_;  // of long matches, and of short ones
  uint32_t end_ = 0;
};

}  // namespace billow::engine

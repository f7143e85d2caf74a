// Finds earlier occurrences of the end of a text among the tokens that were added last. Uses chains
// of positions with equal hashes, like compressors of the LZ77 kind. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace billow::engine {

// An earlier occurrence of the last tokens of a text.
struct Match {
  uint32_t next = 0;  // the position after it, whose token may be the next one of the text
  size_t length = 0;  // in tokens
};

class MatchFinder {
 public:
  static constexpr size_t kMinMatch = 2;   // min length for find(), in tokens
  static constexpr size_t kMaxMatch = 32;  // longer matches count as this long

  // Keeps the last max_window tokens.
  explicit MatchFinder(size_t max_window);

  void add(int32_t token);
  // Ends a text. Matches and continuations never cross a border.
  void add_border() { add(kBorder); }

  // Returns the longest match of the end of `text` that has a next token; of equally long ones, the
  // latest. Checks a limited number of candidates. `text` may be the text that was added last, or
  // another one.
  std::optional<Match> find(std::span<const int32_t> text) const;
  // Returns the longest match, of at least one token, whose next position is within `radius` of
  // `center`. Of equally long ones, returns the nearest; at equal distance, the later one.
  std::optional<Match> find_near(std::span<const int32_t> text, uint32_t center,
                                 size_t radius) const;

  // begin() and end() are the positions of the kept tokens. Positions count from 0 as tokens are
  // added. After 2^32 - 1 tokens, all tokens are dropped and positions restart at 0.
  uint32_t begin() const noexcept { return end_ - static_cast<uint32_t>(tokens_.size()); }
  uint32_t end() const noexcept { return end_; }
  // Returns the token at a position; nullopt for a border. REQUIRES: begin() <= position < end().
  std::optional<int32_t> at(size_t position) const noexcept;

 private:
  static constexpr int32_t kBorder = -1;
  static constexpr uint32_t kNone = 0;  // in chains, which hold positions + 1

  // Positions whose last `order` tokens have equal hashes, latest first.
  struct Chain {
    size_t order = 0;
    std::vector<uint32_t> heads{};     // [hash]: latest position + 1
    std::vector<uint32_t> previous{};  // [position % window]: position before it in the chain + 1
  };

  int32_t token(size_t position) const noexcept { return tokens_[position % max_window_]; }
  size_t match_length(std::span<const int32_t> text, uint32_t next) const noexcept;
  void link(Chain& chain, uint32_t position);
  void widen(Chain& chain);
  void clear();
  std::optional<Match> find_in(const Chain& chain, std::span<const int32_t> text) const;

  size_t max_window_;
  std::vector<int32_t> tokens_;  // a ring when it is full
  std::array<Chain, 2> chains_;  // for long matches and for short ones
  uint32_t end_ = 0;
};

}  // namespace billow::engine

// Truncates generated text at the first of several stop strings during streaming. Text that may
// still become a stop string is held back; all other text is returned immediately. Works on bytes,
// so it is independent of how tokens split the text or its characters. Owned by one sequence; one
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace billow::engine {

class StopStrings {
 public:
  // Ignores empty strings, which would stop before the first byte.
  explicit StopStrings(std::vector<std::string> list);

  // Appends generated text and returns the text that can be shown now: all except the longest
  // suffix that is the beginning of a stop string. The stop string that is complete at the earliest
  // byte ends the text before its first byte. If several are complete at the same byte, the longest
  // counts; of equal ones, the first in the list. After a stop, returns empty strings.
  std::string feed(std::string_view piece);

  // Ends the text without a stop string and returns the text that was held back. The next feed()
  // starts a new text.
  std::string flush();

  bool stopped() const noexcept { return which_.has_value(); }
  // Returns the list index of the stop string that was found.
  std::optional<size_t> which() const noexcept { return which_; }
  // Returns the stop string that was found; empty: none.
  std::string_view found() const noexcept;

 private:
  // One stop string as a Knuth-Morris-Pratt automaton (1977, SIAM Journal on Computing 6(2)).
  // `n_matched` is the length of the longest suffix of the text that is a prefix of the stop
  // string. The automaton never looks back in the text.
  struct Pattern {
    std::string text;
    // [n]: length of the longest proper suffix of the first n bytes of text that is also its
    // prefix.
    std::vector<uint32_t> fallback;
    size_t index = 0;  // in the list
    size_t n_matched = 0;

    void advance(char byte) noexcept;
  };

  static Pattern make_pattern(std::string text, size_t index);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<size_t> which_;
};

}  // namespace billow::engine

// Cuts generated text at the first of several stop strings while it streams: what may still become
// a stop string is held back, everything else is passed on at once. Works on bytes, so it does not
// matter how tokens cut the text or its characters. Owned by one sequence; one thread at a time.
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
  // Empty strings are ignored: they would stop before the first byte.
  explicit StopStrings(std::vector<std::string> list);

  // Appends generated text and returns what may be passed on now: all but the longest tail that is
  // the beginning of a stop string. The stop string that is completed by the earliest byte ends the
  // text, which then is all before its first byte; of several completed by the same byte it is the
  // longest, of equal ones the first listed. After that nothing comes any more.
  std::string feed(std::string_view piece);

  // Ends the text without a stop string: returns what was held back. The next feed begins a new
  // text.
  std::string flush();

  bool stopped() const noexcept { return which_.has_value(); }
  // The index in the list of the stop string that was found.
  std::optional<size_t> which() const noexcept { return which_; }
  // Its text; empty where none was found.
  std::string_view found() const noexcept;

 private:
  // One stop string as a Knuth-Morris-Pratt automaton (1977, SIAM Journal on Computing 6(2)):
  // `n_matched`, the longest tail of the text that is a beginning of it, needs no look back into
  // the text.
  struct Pattern {
    std::string text;
    // [n]: the longest proper tail of the first n bytes of text that is also a beginning of it.
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

// The text that is being edited, the effect of each key, and the history. Independent of terminals.
// The text may have several lines. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/client/key_decoder.h"
#include "cli/client/typed_text.h"

namespace billow::cli {

class EditedLine {
 public:
  enum class Outcome { kNone, kLine, kInterrupt, kEnd, kSuspend, kClearScreen };

  // Begins an empty text. `history` has the oldest entry first, and must not change until the next
  // begin().
  void begin(const std::vector<std::string>& history);
  Outcome apply(const KeyEvent& event);

  std::string text() const;
  TypedEnds typed_ends() const;
  // The text as characters, and the index of the character at the cursor; size() after the last
  // one.
  std::u32string characters() const;
  size_t cursor() const noexcept { return cursor_; }
  bool empty() const noexcept { return text_.empty(); }

 private:
  struct Character {
    char32_t value;
    bool pasted;
  };
  using Text = std::vector<Character>;

  // These functions apply a key of one kind. They return false for keys of other kinds.
  bool insert(const KeyEvent& event);
  bool move(Key key, bool was_browsing);
  void remove(Key key);

  void insert(const Text& text);
  // Removes the characters from `begin` to before `end`. If `kills`, keeps them for yanking.
  void erase(size_t begin, size_t end, bool kills);
  void move_row(bool up, bool was_browsing);
  void recall(bool older);
  size_t left_of(size_t at) const;
  size_t right_of(size_t at) const;
  size_t word_left() const;
  size_t word_right() const;
  size_t row_start(size_t at) const;
  size_t row_end(size_t at) const;

  Text text_;
  size_t cursor_ = 0;
  Text killed_;
  const std::vector<std::string>* history_ = nullptr;
  size_t recalled_ = 0;       // index in *history_; its size: no entry
  Text draft_;                // the text before an entry was recalled
  bool is_browsing_ = false;  // the last key recalled an entry
};

}  // namespace billow::cli

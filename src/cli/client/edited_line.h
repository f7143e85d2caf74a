// The text that is being edited: what each key does to it, and the history to choose from. It knows
// nothing of terminals; the text may have several lines. One thread.
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

  // Begins an empty text. `history`, oldest first, must stay as it is until the next begin().
  void begin(const std::vector<std::string>& history);
  Outcome apply(const KeyEvent& event);

  std::string text() const;
  TypedEnds typed_ends() const;
  // The same text by characters, and the character that the cursor stands on: size() behind all.
  std::u32string characters() const;
  size_t cursor() const noexcept { return cursor_; }
  bool empty() const noexcept { return text_.empty(); }

 private:
  struct Character {
    char32_t value;
    bool pasted;
  };
  using Text = std::vector<Character>;

  // What a key does, by kinds of keys: false where it is of another kind.
  bool insert(const KeyEvent& event);
  bool move(Key key, bool was_browsing);
  void remove(Key key);

  void insert(const Text& text);
  // Removes what lies between, as one to yank where `kills`.
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
  size_t recalled_ = 0;       // of *history_; its size: none
  Text draft_;                // what was typed before an entry was recalled
  bool is_browsing_ = false;  // the last key recalled an entry
};

}  // namespace billow::cli

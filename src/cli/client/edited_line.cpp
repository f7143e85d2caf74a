#include "cli/client/edited_line.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "cli/client/format.h"

namespace billow::cli {
namespace {

std::string bytes_of(char32_t c) {
  std::string bytes;
  utf8::append(bytes, c);
  return bytes;
}

bool is_blank(char32_t c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

void EditedLine::begin(const std::vector<std::string>& history) {
  text_.clear();
  draft_.clear();
  cursor_ = 0;
  history_ = &history;
  recalled_ = history.size();
  is_browsing_ = false;
}

std::string EditedLine::text() const {
  std::string bytes;
  for (const Character& c : text_) utf8::append(bytes, c.value);
  return bytes;
}

TypedEnds EditedLine::typed_ends() const {
  const auto is_pasted = [](const Character& c) { return c.pasted; };
  if (std::ranges::none_of(text_, is_pasted)) return {};
  TypedEnds ends{.head = 0, .tail = 0};
  for (auto c = text_.begin(); !c->pasted; ++c) ends.head += bytes_of(c->value).size();
  for (auto c = text_.rbegin(); !c->pasted; ++c) ends.tail += bytes_of(c->value).size();
  return ends;
}

std::u32string EditedLine::characters() const {
  std::u32string text;
  for (const Character& c : text_) text += c.value;
  return text;
}

EditedLine::Outcome EditedLine::apply(const KeyEvent& event) {
  const bool was_browsing = std::exchange(is_browsing_, false);
  switch (event.key) {
    case Key::kEnter:
      return Outcome::kLine;
    case Key::kInterrupt:
      return Outcome::kInterrupt;
    case Key::kSuspend:
      return Outcome::kSuspend;
    case Key::kClearScreen:
      return Outcome::kClearScreen;
    case Key::kEndOrDelete:
      if (text_.empty()) return Outcome::kEnd;
      break;
    default:
      break;
  }
  if (!insert(event) && !move(event.key, was_browsing)) remove(event.key);
  return Outcome::kNone;
}

bool EditedLine::insert(const KeyEvent& event) {
  switch (event.key) {
    case Key::kText:
    case Key::kPasted: {
      Text text;
      for (const char32_t c : event.text) text.push_back({c, event.key == Key::kPasted});
      insert(text);
      return true;
    }
    case Key::kNewline:
      insert({{U'\n', false}});
      return true;
    case Key::kYank:
      insert(killed_);
      return true;
    default:
      return false;
  }
}

bool EditedLine::move(Key key, bool was_browsing) {
  switch (key) {
    case Key::kLeft:
      cursor_ = left_of(cursor_);
      return true;
    case Key::kRight:
      cursor_ = right_of(cursor_);
      return true;
    case Key::kHome:
      cursor_ = row_start(cursor_);
      return true;
    case Key::kEnd:
      cursor_ = row_end(cursor_);
      return true;
    case Key::kWordLeft:
      cursor_ = word_left();
      return true;
    case Key::kWordRight:
      cursor_ = word_right();
      return true;
    case Key::kUp:
    case Key::kDown:
      move_row(key == Key::kUp, was_browsing);
      return true;
    case Key::kOlder:
    case Key::kNewer:
      recall(key == Key::kOlder);
      return true;
    default:
      return false;
  }
}

void EditedLine::remove(Key key) {
  switch (key) {
    case Key::kEndOrDelete:
    case Key::kDelete:
      return erase(cursor_, right_of(cursor_), false);
    case Key::kBackspace:
      return erase(left_of(cursor_), cursor_, false);
    case Key::kKillToEnd:
      return erase(cursor_, row_end(cursor_), true);
    case Key::kKillToStart:
      return erase(row_start(cursor_), cursor_, true);
    case Key::kKillWordLeft:
      return erase(word_left(), cursor_, true);
    case Key::kKillWordRight:
      return erase(cursor_, word_right(), true);
    default:
      return;
  }
}

void EditedLine::insert(const Text& text) {
  text_.insert(text_.begin() + static_cast<std::ptrdiff_t>(cursor_), text.begin(), text.end());
  cursor_ += text.size();
}

void EditedLine::erase(size_t begin, size_t end, bool kills) {
  if (begin == end) return;
  const auto from = text_.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto to = text_.begin() + static_cast<std::ptrdiff_t>(end);
  if (kills) killed_.assign(from, to);
  text_.erase(from, to);
  cursor_ = begin;
}

// Moves by a row. From the first or last row, and while browsing, moves through the history.
void EditedLine::move_row(bool up, bool was_browsing) {
  const bool at_edge = up ? row_start(cursor_) == 0 : row_end(cursor_) == text_.size();
  if (was_browsing || at_edge) return recall(up);
  const size_t column = cursor_ - row_start(cursor_);
  const size_t start = up ? row_start(row_start(cursor_) - 1) : row_end(cursor_) + 1;
  cursor_ = std::min(start + column, row_end(start));
  const auto is_inside = [this](size_t at) {
    return at < text_.size() && column_width(text_[at].value) == 0;
  };
  while (cursor_ > start && is_inside(cursor_)) --cursor_;
}

void EditedLine::recall(bool older) {
  if (history_ == nullptr || (older ? recalled_ == 0 : recalled_ == history_->size())) return;
  if (recalled_ == history_->size()) draft_ = text_;
  recalled_ = older ? recalled_ - 1 : recalled_ + 1;
  text_.clear();
  if (recalled_ == history_->size()) {
    text_ = draft_;
  } else {
    std::string_view entry = (*history_)[recalled_];
    while (!entry.empty()) {
      const utf8::CodePoint c = utf8::decode(entry);
      text_.push_back({c.value, false});
      entry.remove_prefix(c.n_bytes);
    }
  }
  cursor_ = text_.size();
  is_browsing_ = true;
}

// The cursor is never between a character and its combining marks.
size_t EditedLine::left_of(size_t at) const {
  if (at > 0) --at;
  while (at > 0 && at < text_.size() && column_width(text_[at].value) == 0) --at;
  return at;
}

size_t EditedLine::right_of(size_t at) const {
  if (at < text_.size()) ++at;
  while (at < text_.size() && column_width(text_[at].value) == 0) ++at;
  return at;
}

size_t EditedLine::word_left() const {
  size_t at = cursor_;
  while (at > 0 && is_blank(text_[at - 1].value)) --at;
  while (at > 0 && !is_blank(text_[at - 1].value)) --at;
  return at;
}

size_t EditedLine::word_right() const {
  size_t at = cursor_;
  while (at < text_.size() && is_blank(text_[at].value)) ++at;
  while (at < text_.size() && !is_blank(text_[at].value)) ++at;
  return at;
}

size_t EditedLine::row_start(size_t at) const {
  while (at > 0 && text_[at - 1].value != U'\n') --at;
  return at;
}

size_t EditedLine::row_end(size_t at) const {
  while (at < text_.size() && text_[at].value != U'\n') ++at;
  return at;
}

}  // namespace billow::cli

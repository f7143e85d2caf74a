#include "gguf/cursor.h"

#include "base/utf8.h"

namespace billow::gguf {
namespace {

// Replaces control characters, so that the message stays on one line.
std::string one_line(std::string_view text) {
  std::string line = utf8::sanitized(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return line;
}

std::string described(const Place& place) {
  std::string text(place.kind);
  if (place.kind != Place{}.kind) text += " " + std::to_string(place.index);
  if (!place.name.empty()) text += " " + quoted(place.name);
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  if (text.size() <= kMaxBytes) return '"' + one_line(text) + '"';
  const std::string_view head = text.substr(0, kMaxBytes);
  return '"' + one_line(head.substr(0, utf8::whole_length(head))) + "...\"";
}

Error file_error(std::string_view file, const std::string& what, ErrorCode code) {
  return {code, one_line(file) + ": " + what};
}

std::span<const std::byte> Cursor::take(uint64_t n, std::string_view what) {
  item_ = offset_;
  if (n > remaining()) {
    fail(std::string(what) + " takes " + std::to_string(n) + " bytes, but " +
         std::to_string(remaining()) +
         " are left; the file is truncated or damaged: download it again");
  }
  if (n > bytes_.size() - offset_) throw MoreBytesNeeded{offset_ + n};
  offset_ += n;
  return bytes_.subspan(item_, n);
}

void Cursor::fail(const std::string& what, ErrorCode code) const {
  throw file_error(file_, described(place_) + ", byte " + std::to_string(item_) + ": " + what,
                   code);
}

void Cursor::fail_at(const Place& place, const std::string& what) const {
  throw file_error(file_, described(place) + ": " + what);
}

}  // namespace billow::gguf

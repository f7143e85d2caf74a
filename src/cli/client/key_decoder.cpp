#include "cli/client/key_decoder.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/utf8.h"

namespace billow::cli {
namespace {

constexpr char kEscape = '\033';
constexpr char kInterruptByte = 3;
constexpr std::string_view kPasteBegins = "\033[200~";
constexpr std::string_view kPasteEnds = "\033[201~";
constexpr size_t kMaxSequence = 32;  // bytes; a longer sequence is not a key

struct ControlKey {
  char32_t code;
  Key key;
};
constexpr ControlKey kControls[] = {
    {1, Key::kHome},         {2, Key::kLeft},         {3, Key::kInterrupt},
    {4, Key::kEndOrDelete},  {5, Key::kEnd},          {6, Key::kRight},
    {8, Key::kBackspace},    {10, Key::kEnter},       {11, Key::kKillToEnd},
    {12, Key::kClearScreen}, {13, Key::kEnter},       {14, Key::kNewer},
    {16, Key::kOlder},       {21, Key::kKillToStart}, {23, Key::kKillWordLeft},
    {25, Key::kYank},        {26, Key::kSuspend},     {127, Key::kBackspace},
};

constexpr ControlKey kAltKeys[] = {
    {'b', Key::kWordLeft},   {'f', Key::kWordRight}, {'d', Key::kKillWordRight},
    {'\r', Key::kNewline},   {'\n', Key::kNewline},  {127, Key::kKillWordLeft},
    {8, Key::kKillWordLeft},
};

struct SequenceKey {
  std::string_view sequence;  // after the escape
  Key key;
};
constexpr SequenceKey kSequences[] = {
    {"[A", Key::kUp},           {"[B", Key::kDown},
    {"[C", Key::kRight},        {"[D", Key::kLeft},
    {"[H", Key::kHome},         {"[F", Key::kEnd},
    {"OA", Key::kUp},           {"OB", Key::kDown},
    {"OC", Key::kRight},        {"OD", Key::kLeft},
    {"OH", Key::kHome},         {"OF", Key::kEnd},
    {"[1~", Key::kHome},        {"[7~", Key::kHome},
    {"[4~", Key::kEnd},         {"[8~", Key::kEnd},
    {"[3~", Key::kDelete},      {"[1;5C", Key::kWordRight},
    {"[1;3C", Key::kWordRight}, {"[1;5D", Key::kWordLeft},
    {"[1;3D", Key::kWordLeft},  {"[3;5~", Key::kKillWordRight},
};

std::optional<Key> key_of(std::span<const ControlKey> keys, char32_t code) {
  const auto found = std::ranges::find(keys, code, &ControlKey::code);
  return found == keys.end() ? std::nullopt : std::optional(found->key);
}

// Returns the first character; nullopt if its last bytes are missing.
std::optional<utf8::CodePoint> first_character(std::string_view bytes) {
  if (utf8::whole_length(bytes.substr(0, 4)) == 0) return std::nullopt;
  return utf8::decode(bytes);
}

// Returns the bytes of the sequence that begins with "ESC [" or "ESC O"; 0 if more bytes are
// needed. A byte that cannot be part of the sequence ends it and is not counted.
size_t sequence_length(std::string_view bytes) {
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  // The console of Linux sends ESC [ [ A for F1.
  const size_t begin = bytes.size() > 2 && bytes[2] == '[' ? 3 : 2;
  for (size_t i = begin; i < bytes.size(); ++i) {
    if (bytes[i] < 0x20 || bytes[i] > 0x7E || i >= kMaxSequence) return i;
    if (bytes[i] >= 0x40) return i + 1;
  }
  return 0;
}

}  // namespace

std::vector<KeyEvent> KeyDecoder::take(std::string_view bytes, bool after_pause) {
  if (after_pause && is_pasting() && bytes.size() == 1 && bytes[0] == kInterruptByte) {
    paste_ = Paste::kNone;
    after_return_ = false;
    pending_.clear();
    return {{.key = Key::kInterrupt}};
  }
  std::vector<KeyEvent> events;
  pending_ += bytes;
  std::string_view left = pending_;
  while (!left.empty()) {
    size_t n_taken = 0;
    if (is_pasting()) {
      std::u32string text;
      n_taken = take_pasted(left, text);
      if (!text.empty()) events.push_back({.key = Key::kPasted, .text = std::move(text)});
    } else {
      n_taken = take_key(left, events);
    }
    if (n_taken == 0) break;
    left.remove_prefix(n_taken);
  }
  pending_.erase(0, pending_.size() - left.size());
  return events;
}

void KeyDecoder::interrupt() {
  if (paste_ == Paste::kTaken) paste_ = Paste::kDropped;
}

size_t KeyDecoder::take_pasted(std::string_view bytes, std::u32string& text) {
  size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view left = bytes.substr(at);
    if (left.starts_with(kPasteEnds)) {
      paste_ = Paste::kNone;
      after_return_ = false;
      return at + kPasteEnds.size();
    }
    if (kPasteEnds.starts_with(left)) break;  // perhaps the end of the paste
    const auto c = first_character(left);
    if (!c) break;
    at += c->n_bytes;
    const bool follows_return = std::exchange(after_return_, c->value == '\r');
    if (paste_ == Paste::kDropped || (c->value == '\n' && follows_return)) continue;
    text += c->value == '\r' ? U'\n' : c->value;
  }
  return at;
}

size_t KeyDecoder::take_key(std::string_view bytes, std::vector<KeyEvent>& events) {
  if (bytes[0] == kEscape) return take_sequence(bytes, events);
  const auto c = first_character(bytes);
  if (!c) return 0;
  if (const auto key = key_of(kControls, c->value)) {
    events.push_back({.key = *key});
  } else if (c->value >= 0x20 || c->value == '\t') {
    events.push_back({.key = Key::kText, .text = std::u32string(1, c->value)});
  }
  return c->n_bytes;
}

size_t KeyDecoder::take_sequence(std::string_view bytes, std::vector<KeyEvent>& events) {
  if (bytes.size() == 1) return 0;
  if (bytes[1] == kEscape) return 1;
  if (bytes[1] == '[' || bytes[1] == 'O') {
    const size_t length = sequence_length(bytes);
    const std::string_view sequence = bytes.substr(0, length);
    if (sequence == kPasteBegins) paste_ = Paste::kTaken;
    for (const SequenceKey& known : kSequences) {
      if (length > 0 && sequence.substr(1) == known.sequence) events.push_back({.key = known.key});
    }
    return length;
  }
  const auto c = first_character(bytes.substr(1));
  if (!c) return 0;
  if (const auto key = key_of(kAltKeys, c->value)) events.push_back({.key = *key});
  return 1u + c->n_bytes;
}

}  // namespace billow::cli

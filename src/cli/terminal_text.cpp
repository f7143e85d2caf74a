#include "cli/terminal_text.h"

#include "base/utf8.h"

namespace billow::cli {
namespace {

constexpr char32_t kDelete = 0x7F;
constexpr char32_t kReplacement = 0xFFFD;
// The Unicode block "Control Pictures" has a symbol for each of the first 32 characters, in their
// order, and for DEL.
constexpr char32_t kSymbols = 0x2400;
constexpr char32_t kSymbolOfDelete = 0x2421;

char32_t shown(char32_t character) {
  if (character == '\n' || character == '\t') return character;
  if (character < 0x20) return kSymbols + character;
  if (character == kDelete) return kSymbolOfDelete;
  return is_control(character) ? kReplacement : character;
}

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const utf8::CodePoint point = utf8::decode(text);
    text.remove_prefix(point.n_bytes);
    if (point.value == '\r' && text.starts_with('\n')) continue;
    utf8::append(out, shown(point.value));
  }
  return out;
}

}  // namespace billow::cli

// Reads RWKV's vocabulary: lines "ID LITERAL LENGTH". LITERAL is a string or bytes in Python's
// notation.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "convert/vocabulary.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr uint32_t kEndOfTurn = 261;  // "\n\n"

struct Escape {
  char letter;
  char byte;
};
constexpr Escape kEscapes[] = {{'n', '\n'},  {'r', '\r'}, {'t', '\t'}, {'\\', '\\'},
                               {'\'', '\''}, {'"', '"'},  {'a', '\a'}, {'b', '\b'},
                               {'f', '\f'},  {'v', '\v'}, {'0', '\0'}};

std::optional<uint32_t> hex(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Returns the bytes of a literal, or nullopt if it is invalid.
std::optional<std::string> literal_bytes(std::string_view literal) {
  const bool is_bytes = literal.starts_with('b');
  if (is_bytes) literal.remove_prefix(1);
  if (literal.size() < 2 || (literal.front() != '\'' && literal.front() != '"') ||
      literal.back() != literal.front())
    return std::nullopt;
  const std::string_view text = literal.substr(1, literal.size() - 2);
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes += text[at];
      continue;
    }
    if (++at == text.size()) return std::nullopt;
    const char letter = text[at];
    const size_t n_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (n_digits != 0) {
      if (text.size() - at - 1 < n_digits) return std::nullopt;
      const auto value = hex(text.substr(at + 1, n_digits));
      if (!value || *value > 0x10FFFF) return std::nullopt;
      if (is_bytes) {
        bytes += static_cast<char>(*value);
      } else {
        utf8::append(bytes, *value);
      }
      at += n_digits;
      continue;
    }
    const auto* const escape = std::ranges::find(kEscapes, letter, &Escape::letter);
    if (escape == std::end(kEscapes)) return std::nullopt;
    bytes += escape->byte;
  }
  return bytes;
}

// Formats bytes in Python's notation, without the quotes. Readers of the GGUF file parse this
// notation.
std::string python_text(std::string_view bytes) {
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      text += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (byte < 0x20 || byte >= 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

void read_world_pieces(const Sources& sources, Vocabulary& vocabulary) {
  const std::string lines = sources.text(kWorldFile).value();
  vocabulary.model = "rwkv";
  put_piece(vocabulary.pieces, 0, {"<s>", 0, TokenType::kControl}, kWorldFile);
  uint64_t id = 0;
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end), "\r");
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    ++id;
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    const auto bytes =
        first < last ? literal_bytes(line.substr(first + 1, last - first - 1)) : std::nullopt;
    if (!bytes || line.substr(0, first) != std::to_string(id) ||
        line.substr(last + 1) != std::to_string(bytes->size())) {
      throw Error(ErrorCode::kInvalidInput,
                  fmt::format("{}: line {} is not the number {}, a literal and its length",
                              kWorldFile, id, id));
    }
    put_piece(vocabulary.pieces, id, {python_text(*bytes), 0, TokenType::kNormal}, kWorldFile);
  }
  vocabulary.special.bos = vocabulary.special.eos = 0;
  if (vocabulary.pieces.size() > kEndOfTurn) vocabulary.special.eot = kEndOfTurn;
}

}  // namespace billow::convert

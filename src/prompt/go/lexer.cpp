#include "prompt/go/lexer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/go_text.h"
#include "base/utf8.h"

namespace billow::prompt::go {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kSpaces = " \t\r\n";
constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";

bool is_space(char byte) { return kSpaces.find(byte) != kSpaces.npos; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Every character beyond ASCII counts as a letter. Go is stricter.
bool is_word(char byte) {
  return byte == '_' || is_digit(byte) || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || static_cast<unsigned char>(byte) >= 0x80;
}

bool opens_trimmed(std::string_view rest) {
  return rest.size() >= 2 && rest[0] == '-' && is_space(rest[1]);
}

bool closes_trimmed(std::string_view rest) {
  return rest.size() >= 4 && is_space(rest[0]) && rest[1] == '-' &&
         rest.substr(2).starts_with(kClose);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (!is_done_) text();
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return source_.substr(at_); }
  char peek() const { return at_ < source_.size() ? source_[at_] : '\0'; }

  void emit(Kind kind, size_t begin, size_t end) {
    count_lines(begin);
    tokens_.push_back({kind, source_.substr(begin, end - begin), line_, begin, ""});
    at_ = end;
  }

  void count_lines(size_t end) {
    const auto first = source_.begin();
    line_ += static_cast<size_t>(std::count(first + static_cast<std::ptrdiff_t>(counted_),
                                            first + static_cast<std::ptrdiff_t>(end), '\n'));
    counted_ = end;
  }

  void fail(size_t begin, std::string message) {
    emit(Kind::kError, begin, begin);
    tokens_.back().message = std::move(message);
    is_done_ = true;
  }

  // "bad character U+007D '}'"
  std::string with_character(const char* message) const {
    const bool is_end = at_ >= source_.size();
    const utf8::CodePoint point = is_end ? utf8::CodePoint{0, 0, true} : utf8::decode(rest());
    std::array<char, 32> code{};
    std::snprintf(code.data(), code.size(), "U+%04X", static_cast<unsigned>(point.value));
    std::string result = std::string(message) + " " + (is_end ? "at the end" : code.data());
    if (is_end || !is_go_printable(point.value)) return result;
    utf8::append(result += " '", point.value);
    return result + "'";
  }

  void text() {
    const size_t open = source_.find(kOpen, at_);
    size_t end = std::min(open, source_.size());
    if (open != source_.npos && opens_trimmed(source_.substr(open + 2))) {
      while (end > at_ && is_space(source_[end - 1])) --end;
    }
    if (end > at_) emit(Kind::kText, at_, end);
    at_ = std::min(open, source_.size());
    if (open == source_.npos) {
      emit(Kind::kEnd, at_, at_);
      is_done_ = true;
      return;
    }
    const bool is_trimmed = opens_trimmed(source_.substr(open + 2));
    const size_t after = open + 2 + (is_trimmed ? 2 : 0);
    if (source_.substr(after).starts_with("/*")) return comment(after);
    emit(Kind::kLeftDelimiter, open, open + 2);
    at_ = after;
    n_open_ = 0;
    while (!is_done_ && action()) {
    }
  }

  void comment(size_t begin) {
    const size_t end = source_.find("*/", begin + 2);
    if (end == source_.npos) return fail(begin, "unclosed comment");
    at_ = end + 2;
    if (closes_trimmed(rest())) {
      at_ = std::min(source_.find_first_not_of(kSpaces, at_ + 4), source_.size());
    } else if (rest().starts_with(kClose)) {
      at_ += 2;
    } else {
      fail(begin, "comment ends before closing delimiter");
    }
  }

  void right_delimiter(bool is_trimmed) {
    const size_t begin = at_ + (is_trimmed ? 2 : 0);
    emit(Kind::kRightDelimiter, begin, begin + 2);
    if (is_trimmed) at_ = std::min(source_.find_first_not_of(kSpaces, at_), source_.size());
  }

  // Reads one token of an action; returns false after the right delimiter.
  bool action() {
    const bool is_trimmed = closes_trimmed(rest());
    if (is_trimmed || rest().starts_with(kClose)) {
      if (n_open_ > 0) return fail(at_, "unclosed left paren"), false;
      right_delimiter(is_trimmed);
      return false;
    }
    if (at_ >= source_.size()) return fail(at_, "unclosed action"), false;
    const char byte = peek();
    if (is_space(byte)) {
      size_t end = at_ + 1;
      while (end < source_.size() && is_space(source_[end]) &&
             !closes_trimmed(source_.substr(end))) {
        ++end;
      }
      emit(Kind::kSpace, at_, end);
    } else if (const auto kind = punctuation(byte)) {
      emit(*kind, at_, at_ + (*kind == Kind::kDeclare ? 2 : 1));
    } else if (!is_done_) {
      operand(byte);
    }
    return true;
  }

  std::optional<Kind> punctuation(char byte) {
    switch (byte) {
      case '=':
        return Kind::kAssign;
      case '|':
        return Kind::kPipe;
      case ':':
        if (rest().starts_with(":=")) return Kind::kDeclare;
        fail(at_, "expected :=");
        return std::nullopt;
      case '(':
        ++n_open_;
        return Kind::kLeftParenthesis;
      case ')':
        if (n_open_ > 0) {
          --n_open_;
          return Kind::kRightParenthesis;
        }
        fail(at_, "unexpected right paren");
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  void operand(char byte) {
    const char next = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    if (byte == '"') return quoted_token('"', Kind::kString, "unterminated quoted string");
    if (byte == '\'') return quoted_token('\'', Kind::kRune, "unterminated character constant");
    if (byte == '`') return raw_string();
    if (byte == '$') return word(at_ + 1, Kind::kVariable);
    if (byte == '.' && !is_digit(next)) {
      return is_word(next) ? word(at_ + 1, Kind::kField) : word(at_ + 1, Kind::kDot);
    }
    if (byte == '.' || byte == '+' || byte == '-' || is_digit(byte)) return number();
    if (is_word(byte)) return word(at_, Kind::kIdentifier);
    if (byte > ' ' && byte < 0x7F) return emit(Kind::kCharacter, at_, at_ + 1);
    fail(at_, with_character("unrecognized character in action:"));
  }

  bool is_at_terminator() const {
    return at_ >= source_.size() || is_space(peek()) ||
           std::string_view(".,|:)(").find(peek()) != std::string_view::npos ||
           rest().starts_with(kClose);
  }

  // Reads a token that begins at the current place. Its name begins at `begin`.
  void word(size_t begin, Kind kind) {
    const size_t first = at_;
    at_ = begin;
    while (at_ < source_.size() && is_word(source_[at_])) ++at_;
    if (!is_at_terminator()) return fail(first, with_character("bad character"));
    const std::string_view name = source_.substr(first, at_ - first);
    if (kind == Kind::kIdentifier) kind = kind_of_word(name);
    emit(kind, first, at_);
  }

  static Kind kind_of_word(std::string_view name) {
    constexpr std::array<std::string_view, 10> kKeywords{
        "block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"};
    if (name == "true" || name == "false") return Kind::kBool;
    if (name == "nil") return Kind::kNil;
    const bool is_keyword = std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
    return is_keyword ? Kind::kKeyword : Kind::kIdentifier;
  }

  void quoted_token(char quote, Kind kind, const char* complaint) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote && source_[end] != '\n') {
      end += source_[end] == '\\' && end + 1 < source_.size() && source_[end + 1] != '\n' ? 2 : 1;
    }
    if (end >= source_.size() || source_[end] != quote) return fail(at_, complaint);
    emit(kind, at_, end + 1);
  }

  void raw_string() {
    const size_t end = source_.find('`', at_ + 1);
    if (end == source_.npos) return fail(at_, "unterminated raw quoted string");
    emit(Kind::kRawString, at_, end + 1);
  }

  // Reads everything that can belong to a number. The parser decides whether it is a number.
  void number() {
    const size_t first = at_;
    size_t end = at_ + 1;
    const bool is_hex = rest().starts_with("0x") || rest().starts_with("0X") ||
                        rest().substr(1).starts_with("0x") || rest().substr(1).starts_with("0X");
    for (; end < source_.size(); ++end) {
      const char byte = source_[end];
      const char before = source_[end - 1];
      const bool is_sign =
          (byte == '+' || byte == '-') &&
          (is_hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E');
      if (!is_word(byte) && byte != '.' && !is_sign) break;
    }
    emit(Kind::kNumber, first, end);
  }

  std::string_view source_;
  size_t at_ = 0;
  size_t line_ = 1;
  size_t counted_ = 0;  // line_ includes the line ends of this many bytes
  size_t n_open_ = 0;   // open parentheses of the action
  bool is_done_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) { return Lexer(source).run(); }

}  // namespace billow::prompt::go

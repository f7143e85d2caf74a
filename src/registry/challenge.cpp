#include "registry/challenge.h"

#include <cctype>
#include <optional>

#include "base/text.h"

namespace billow::registry {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Returns whether `c` may be part of a token (RFC 9110, 5.6.2).
bool is_token_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token68_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-._~+/").find(c) != std::string_view::npos;
}

bool is_padding(char c) { return c == '='; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  void skip_commas() {
    while (!rest_.empty() && (is_blank(rest_.front()) || rest_.front() == ','))
      rest_.remove_prefix(1);
  }
  bool take(char wanted) {
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string token(bool (*fits)(char) = is_token_char) {
    size_t n = 0;
    while (n < rest_.size() && fits(rest_[n])) ++n;
    std::string text(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return text;
  }
  // Reads a quoted string and returns its text without quotes. Returns nullopt if the closing quote
  // is missing.
  std::optional<std::string> quoted() {
    std::string text;
    for (rest_.remove_prefix(1); !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_.front() == '"') {
        rest_.remove_prefix(1);
        return text;
      }
      if (rest_.front() == '\\') rest_.remove_prefix(1);
      if (!rest_.empty())
        text += rest_.front();
      else
        break;
    }
    return std::nullopt;
  }
  bool at_quote() const { return !rest_.empty() && rest_.front() == '"'; }
  std::string_view mark() const { return rest_; }
  void go_back(std::string_view mark) { rest_ = mark; }

 private:
  std::string_view rest_;
};

// Skips a value without a name (token68), such as in "Negotiate dXNlcg==". If there is no such
// value, returns false and reads nothing.
bool skip_value(Scanner& scanner) {
  const std::string_view begin = scanner.mark();
  const bool has_value = !scanner.token(is_token68_char).empty();
  scanner.token(is_padding);
  scanner.skip_blanks();
  if (has_value && (scanner.at_end() || scanner.take(','))) return true;
  scanner.go_back(begin);
  return false;
}

// Reads the next "name = value". If there is no parameter, returns false and reads nothing.
bool read_parameter(Scanner& scanner, Challenge& challenge) {
  const std::string_view begin = scanner.mark();
  const std::string name = lower_case(scanner.token());
  scanner.skip_blanks();
  if (name.empty() || !scanner.take('=')) {
    scanner.go_back(begin);
    return false;
  }
  scanner.skip_blanks();
  const std::optional<std::string> value =
      scanner.at_quote() ? scanner.quoted() : std::optional<std::string>(scanner.token());
  if (!value) {
    scanner.go_back(begin);
    return false;
  }
  challenge.parameters.emplace(name, *value);
  return true;
}

}  // namespace

const std::string& Challenge::parameter(const std::string& name) const {
  static const std::string none;
  const auto at = parameters.find(name);
  return at == parameters.end() ? none : at->second;
}

std::vector<Challenge> parse_challenges(std::string_view value) {
  std::vector<Challenge> challenges;
  Scanner scanner(value);
  for (scanner.skip_commas(); !scanner.at_end(); scanner.skip_commas()) {
    Challenge challenge{lower_case(scanner.token()), {}};
    if (challenge.scheme.empty()) break;
    scanner.skip_blanks();
    bool has_any = !skip_value(scanner) && read_parameter(scanner, challenge);
    while (has_any) {
      const std::string_view begin = scanner.mark();
      scanner.skip_commas();
      has_any = read_parameter(scanner, challenge);
      if (!has_any) scanner.go_back(begin);
    }
    challenges.push_back(std::move(challenge));
  }
  return challenges;
}

}  // namespace billow::registry

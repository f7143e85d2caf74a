#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/utf8.h"
#include "prompt/go/print.h"

namespace billow::prompt::go {
namespace {

constexpr int kMaxWidth = 1'000'000;  // larger ones print %!(BADWIDTH) or %!(BADPREC)

// Prints the text of a format, with the values of its verbs.
class Printf {
 public:
  Printf(BudgetedText& out, std::string_view format, const std::vector<Value>& values)
      : out_(out), rest_(format), values_(values) {}

  void run() {
    while (!rest_.empty()) {
      const size_t n = std::min(rest_.find('%'), rest_.size());
      out_.append(rest_.substr(0, n));
      rest_.remove_prefix(n);
      if (rest_.empty()) break;
      rest_.remove_prefix(1);
      directive();
    }
    if (at_ < values_.size()) report_extra();
  }

 private:
  void directive() {
    Verb verb;
    flags(verb);
    if (takes('*')) {
      if (const std::optional<int> width = next_number("%!(BADWIDTH)", -kMaxWidth)) {
        verb.width = std::abs(*width);
        verb.minus = verb.minus || *width < 0;
        verb.zero = verb.zero && *width >= 0;
      }
    } else {
      verb.width = digits("%!(BADWIDTH)");
    }
    if (takes('.'))
      verb.precision = takes('*') ? next_number("%!(BADPREC)", 0).value_or(-1)
                                  : std::max(digits("%!(BADPREC)"), 0);
    if (rest_.empty()) return out_.append("%!(NOVERB)");
    const utf8::CodePoint point = utf8::decode(rest_);
    rest_.remove_prefix(point.n_bytes);
    verb.letter = point.value;
    if (verb.letter == '%') return out_.append("%");
    if (at_ < values_.size()) return append_formatted(out_, values_[at_++], verb);
    std::string name;
    utf8::append(name, verb.letter);
    out_.append("%!" + name + "(MISSING)");
  }

  void flags(Verb& verb) {
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      switch (rest_.front()) {
        case '-':
          verb.minus = true;
          verb.zero = false;
          break;
        case '+':
          verb.plus = true;
          break;
        case '#':
          verb.sharp = true;
          break;
        case ' ':
          verb.space = true;
          break;
        case '0':
          verb.zero = !verb.minus;
          break;
        default:
          return;
      }
    }
  }

  // Reads a width or precision: digits, or `*` for the next value; -1: none.
  bool takes(char letter) {
    if (!rest_.starts_with(letter)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Returns the next value if it is a number from `min` to kMaxWidth. Otherwise writes `complaint`.
  std::optional<int> next_number(std::string_view complaint, int min) {
    const int64_t* value = at_ < values_.size() ? values_[at_].as_integer() : nullptr;
    at_ += at_ < values_.size() ? 1 : 0;
    if (value && *value >= min && *value <= kMaxWidth) return static_cast<int>(*value);
    out_.append(complaint);
    return std::nullopt;
  }

  // Returns the number at the beginning of the rest; -1: there are no digits.
  int digits(std::string_view complaint) {
    int value = -1;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1)) {
      value = std::min(std::max(value, 0) * 10 + (rest_.front() - '0'), kMaxWidth + 1);
    }
    if (value <= kMaxWidth) return value;
    out_.append(complaint);
    return -1;
  }

  void report_extra() {
    out_.append("%!(EXTRA ");
    for (bool is_first = true; at_ < values_.size(); ++at_, is_first = false) {
      if (!is_first) out_.append(", ");
      const Value& value = values_[at_];
      if (!value.is_nil()) out_.append(std::string(value.type_name()) + "=");
      append_formatted(out_, value, {});
    }
    out_.append(")");
  }

  BudgetedText& out_;
  std::string_view rest_;
  const std::vector<Value>& values_;
  size_t at_ = 0;
};

}  // namespace

void append_printf(BudgetedText& out, std::string_view format, const std::vector<Value>& values) {
  Printf(out, format, values).run();
}

}  // namespace billow::prompt::go

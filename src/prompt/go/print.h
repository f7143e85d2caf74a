// The texts of values: as Go's fmt package prints them, and as its json package encodes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "prompt/go/budget.h"
#include "prompt/go/value.h"

namespace billow::prompt::go {

// A verb of Printf with its flags. Negative: no width, or no precision.
struct Verb {
  char32_t letter = 'v';
  bool minus = false;
  bool plus = false;
  bool sharp = false;
  bool space = false;
  bool zero = false;
  int width = -1;
  int precision = -1;
};

// `value` under `verb`, or `%!d(string=a)` where the two do not go together.
void append_formatted(BudgetedText& out, const Value& value, const Verb& verb);

// As fmt.Sprintf prints: too few or too many values are told in the text.
void append_printf(BudgetedText& out, std::string_view format, const std::vector<Value>& values);

// As fmt.Sprint: a space between two values of which neither is a text.
void append_print(BudgetedText& out, const std::vector<Value>& values);

// Compact, with <, > and & escaped; maps sorted, records in order, invalid UTF-8 as U+FFFD.
void append_json(BudgetedText& out, const Value& value);

}  // namespace billow::prompt::go

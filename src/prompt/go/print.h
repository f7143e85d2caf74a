// Prints values as Go's fmt package prints them, and encodes values as Go's json package does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "prompt/go/budget.h"
#include "prompt/go/value.h"

namespace billow::prompt::go {

// A verb of Printf with its flags. A negative width or precision: none.
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

// Appends `value` formatted by `verb`, or `%!d(string=a)` if the verb does not fit the value.
void append_formatted(BudgetedText& out, const Value& value, const Verb& verb);

// Prints like fmt.Sprintf: the text reports missing and extra values.
void append_printf(BudgetedText& out, std::string_view format, const std::vector<Value>& values);

// Prints like fmt.Sprint: with a space between two values if neither is a text.
void append_print(BudgetedText& out, const std::vector<Value>& values);

// Encodes compactly, with <, > and & escaped. Maps are sorted, records keep their order, and
// invalid UTF-8 becomes U+FFFD.
void append_json(BudgetedText& out, const Value& value);

}  // namespace billow::prompt::go

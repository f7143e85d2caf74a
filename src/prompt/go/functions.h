// The functions that Go templates call: Go's own, and json, currentDate, yesterdayDate and
// toTypeScriptType. All are pure but for the clock, which the call brings.
#pragma once

#include <cstddef>
#include <ctime>
#include <string_view>
#include <vector>

#include "prompt/go/budget.h"
#include "prompt/go/value.h"

namespace billow::prompt::go {

struct Call {
  std::vector<Value> arguments;
  Budget& budget;
  std::time_t now;
};

inline constexpr size_t kAnyNumber = ~size_t{0};

struct Function {
  std::string_view name;
  size_t n_min;
  size_t n_max;  // kAnyNumber: as many as wanted
  // Throws Error (kInvalidInput) for values that do not suit. Null for `and` and `or`, which stop
  // at the value that decides and so are the evaluator's.
  Value (*body)(Call& call);
};

// Null if there is no such function.
const Function* find_function(std::string_view name);

// Comparisons, in compare.cpp.
Value call_eq(Call& call);
Value call_ne(Call& call);
Value call_lt(Call& call);
Value call_le(Call& call);
Value call_gt(Call& call);
Value call_ge(Call& call);

// Escapes, in escape.cpp.
Value call_html(Call& call);
Value call_js(Call& call);
Value call_urlquery(Call& call);

}  // namespace billow::prompt::go

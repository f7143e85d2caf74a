// The functions that Go templates can call: Go's own, and json, currentDate, yesterdayDate and
// toTypeScriptType. All are pure; the call provides the clock.
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
  size_t n_max;  // kAnyNumber: no limit
  // Throws Error (kInvalidInput) for unsuitable values. Null for `and` and `or`: the evaluator runs
  // these, because they stop at the value that decides.
  Value (*body)(Call& call);
};

// Returns the function of this name, or null.
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

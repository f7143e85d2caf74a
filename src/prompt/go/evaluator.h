// Runs a parsed Go template over data.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>

#include "prompt/go/budget.h"
#include "prompt/go/syntax.h"
#include "prompt/go/value.h"

namespace billow::prompt::go {

inline constexpr size_t kMaxRunDepth = 300;  // levels of nested nodes, pipelines and templates

struct Run {
  Budget& budget;
  std::time_t now;                 // the clock of currentDate
  size_t last_order = ~size_t{0};  // later nodes of the root do not run
};

// Returns the output of the template for `data`. Throws Error "template: :LINE:COLUMN: executing
// ... at <...>: what" (kInvalidInput; kTooLarge beyond a limit).
std::string evaluate(const Program& program, const Value& data, const Run& run);

}  // namespace billow::prompt::go

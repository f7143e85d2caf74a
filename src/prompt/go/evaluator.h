// Runs a parsed Go template over data.
#pragma once

#include <cstddef>
#include <ctime>
#include <string>

#include "prompt/go/budget.h"
#include "prompt/go/syntax.h"
#include "prompt/go/value.h"

namespace billow::prompt::go {

inline constexpr size_t kMaxRunDepth = 300;  // of nodes, pipelines and templates in each other

struct Run {
  Budget& budget;
  std::time_t now;                 // the clock of currentDate
  size_t last_order = ~size_t{0};  // nodes of the root after it are left out
};

// What the template makes of `data`. Throws Error "template: :LINE:COLUMN: executing ... at <...>:
// what" (kInvalidInput), or kTooLarge beyond a limit.
std::string evaluate(const Program& program, const Value& data, const Run& run);

}  // namespace billow::prompt::go

// The output of `billow plan`.
#pragma once

#include <string>

#include "arch/model.h"
#include "base/json_fwd.h"
#include "cli/forecast.h"

namespace billow::cli {

// Returns lines of text for people.
std::string plan_text(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
                      const RequestMemory& memory);
// Returns the object for programs.
Json plan_json(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
               const RequestMemory& memory);

}  // namespace billow::cli

// What `billow plan` prints.
#pragma once

#include <string>

#include "arch/model.h"
#include "base/json_fwd.h"
#include "cli/forecast.h"

namespace billow::cli {

// For people, in lines.
std::string plan_text(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
                      const RequestMemory& memory);
// For programs.
Json plan_json(const PlanOptions& options, const arch::ModelInfo& model, const Forecast& run,
               const RequestMemory& memory);

}  // namespace billow::cli

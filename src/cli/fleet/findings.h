// What `billow fleet check` finds: whether the hosts of a fleet agree. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "cli/fleet/hosts_file.h"
#include "cli/fleet/placement.h"
#include "cli/fleet/survey.h"

namespace billow::cli {

enum class FindingLevel : uint8_t { kOk, kWarning, kFailure };

struct FleetFinding {
  FindingLevel level = FindingLevel::kOk;
  std::string check;  // "reachable", "ready", "version", "read-only", "node name", "model",
                      // "fingerprint", "prefixes" or "drain"
  std::string text;   // one line
};

// Compares the reports of all hosts. Each check of the fleet or of a model has at least one
// finding. `probed`: the reports have prefixes.
std::vector<FleetFinding> findings_of(const Fleet& fleet, const Placement& placement,
                                      const std::vector<HostReport>& reports, bool probed);

bool has_failure(const std::vector<FleetFinding>& findings);

// Returns one line for each finding.
std::string findings_text(const std::vector<FleetFinding>& findings, bool colour);
// Returns {"ok":BOOL,"findings":[{"level","check","text"},...]}.
Json findings_json(const std::vector<FleetFinding>& findings);

// The table of `billow fleet status`, with a row for each host and, for several hosts, their sum.
std::string status_table(const std::vector<HostReport>& reports);
// Returns {"hosts":[...]}.
Json status_json(const std::vector<HostReport>& reports);

}  // namespace billow::cli

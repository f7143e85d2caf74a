// Watches a host of a fleet while somebody stops it. Use it from the main thread.
#pragma once

#include <chrono>
#include <vector>

#include "cli/fleet/findings.h"
#include "cli/fleet/hosts_file.h"

namespace billow::cli {

// Sends small requests to the host until it accepts no more connections, and compares the drain
// with what HAProxy needs: the host must say for three checks that it is not ready, and must serve
// requests meanwhile. Ends without that after `patience`, or when `interrupted` returns true.
std::vector<FleetFinding> watch_drain(const Fleet& fleet, const FleetHost& host,
                                      std::chrono::seconds patience, bool (*interrupted)());

}  // namespace billow::cli

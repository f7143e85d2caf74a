// Writes HAProxy's configuration for a fleet: HAProxy 2.6 (Debian 12) and newer. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/fleet/hosts_file.h"
#include "cli/fleet/placement.h"

namespace billow::cli {

// Returns the whole configuration file. The same fleet gives the same bytes.
std::string haproxy_config(const Fleet& fleet, const Placement& placement);

// Returns the ids of the hosts in HAProxy, which are their places on the hash ring. They follow
// from the names, so that a host which joins or leaves moves no other host.
std::vector<uint32_t> ring_ids(const std::vector<FleetHost>& hosts);

// Returns the options with which `billow serve` starts on a host:
// "--host 10.0.0.1:11434 --node-name a --read-only --memory 24G --preload smollm2".
std::string serve_options(const Fleet& fleet, const Placement& placement, size_t host);

}  // namespace billow::cli

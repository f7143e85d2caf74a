// The hosts file of `billow fleet`: TOML with the hosts of a fleet, its models, and HAProxy's
// settings. docs/scale-out.md describes it. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "scheduler/environment.h"

namespace billow::cli {

struct FleetHost {
  std::string name;                           // unique; letters, digits, '-', '_' and '.'
  scheduler::Endpoint endpoint;               // where its `billow serve` listens
  std::optional<uint64_t> memory_bytes{};     // its --memory
  unsigned weight = 100;                      // its speed, relative to other hosts; 1 to 256
  size_t n_slots = scheduler::kAutoParallel;  // --parallel: requests per model
  std::string key_env{};                      // variable with the API key; empty: BILLOW_API_KEY
};

// Returns the header fields with the API key of a host. Throws Error if its variable is not set.
http::Headers key_headers(const FleetHost& host);

struct FleetModel {
  std::string name;                        // short and in lower case, as HAProxy compares it
  std::optional<uint64_t> memory_bytes{};  // weights and the KV of its requests
  std::vector<std::string> hosts{};        // names; empty: the planner chooses
  std::optional<size_t> n_replicas{};      // hosts that the planner chooses; default: all with room
  bool is_tail = false;                    // rarely used: loaded on demand, on one host at a time
  std::string where{};                     // "FILE:LINE", for errors
};

struct Fleet {
  std::vector<FleetHost> hosts;  // at least one
  std::vector<FleetModel> models{};
  std::string listen = "*:11434";          // HAProxy's address for clients
  std::string metrics = "127.0.0.1:8405";  // HAProxy's address for /metrics and its statistics
  unsigned bound_percent = 150;            // max load of a host, of the mean; 0: no bound
  uint64_t buffer_bytes = 256 << 10;       // max size of a request whose whole body HAProxy sees
  unsigned timeout_seconds = 600;          // max time for which a host or a client sends nothing
  unsigned check_seconds = 1;              // between two checks of a host
  unsigned n_max_connections = 8000;       // of clients
  std::string user{};                      // HAProxy runs as this user and group; empty: as started
  std::string certificate{};               // a PEM file: clients use TLS; empty: plain HTTP
};

// Parses the text of a hosts file. `path` is for errors. Throws Error (kInvalidInput) with the line
// for a text that is no TOML, an unknown key, a wrong value, a name that is used twice, and a host
// of a model that does not exist.
Fleet parse_fleet(std::string_view text, const std::string& path);

// Reads and parses a hosts file. Throws Error if it cannot be read.
Fleet read_fleet(const std::string& path);

}  // namespace billow::cli

// Asks the hosts of a fleet what they are doing. A host that does not answer has a row with an
// error, and the others are not delayed by it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "cli/fleet/hosts_file.h"

namespace billow::cli {

struct HostReport {
  std::string name;
  std::string url;
  std::string error{};  // why the host did not answer; the fields below may be empty then
  bool is_ready = false;
  bool is_draining = false;
  std::vector<std::string> reasons{};  // why it is not ready
  std::string version{};
  std::string node{};  // its --node-name
  bool is_read_only = false;
  std::vector<std::string> loaded{};  // short names of models, in lower case
  uint64_t n_waiting = 0;             // requests
  uint64_t n_running = 0;
  double busy_ratio = 0;  // 0 to 1
  double kv_used_ratio = 0;
  uint64_t n_prompt_tokens = 0;  // since the start of the server
  uint64_t n_cached_tokens = 0;
  // Answers to the further questions of Survey.
  std::map<std::string, std::string> digests{};  // of the models of its store, by short name
  std::map<std::string, std::string> fingerprints{};
  // Digests of cached prefixes after the probe. No entry: the model did not answer the probe.
  std::map<std::string, std::vector<std::string>> prefixes{};
};

struct Survey {
  std::chrono::milliseconds timeout{2000};  // for each answer of a host
  bool asks_models = false;                 // also asks for `digests`
  // For each host, the models to ask for fingerprints. Empty: none.
  std::vector<std::vector<std::string>> models{};
  bool probes = false;  // sends a short prompt to each of `models`, and asks for `prefixes`
  std::chrono::milliseconds probe_timeout{300'000};  // a model may have to be loaded
};

// Asks all hosts in parallel. Returns a report for each host, in the order of the file.
std::vector<HostReport> ask_hosts(const Fleet& fleet, const Survey& survey);

// Returns the value of a series without labels in Prometheus' text format; 0 if there is none.
double series_value(std::string_view metrics, std::string_view name);

// Returns the name by which HAProxy and the hosts file know a model: short and in lower case.
std::string fleet_model_name(const std::string& name);

}  // namespace billow::cli

#include "cli/fleet/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/json.h"

namespace billow::cli {
namespace {

constexpr size_t kShownDigits = 12;  // of a digest

using Names = std::vector<std::string>;
using Groups = std::map<std::string, Names>;  // value -> hosts

std::string joined(const Names& names, const char* between = ", ") {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

// "sha256:0123456789ab": the kind stays.
std::string shown(const std::string& digest) {
  const size_t begin = digest.find(':');
  return digest.substr(0, (begin == std::string::npos ? 0 : begin + 1) + kShownDigits);
}

// "0.1.0 on a, b; 0.2.0 on c"
std::string groups_text(const Groups& groups, bool is_digest) {
  std::string text;
  for (const auto& [value, hosts] : groups)
    text +=
        (text.empty() ? "" : "; ") + (is_digest ? shown(value) : value) + " on " + joined(hosts);
  return text;
}

class Checker {
 public:
  Checker(const Fleet& fleet, const Placement& placement, const std::vector<HostReport>& reports)
      : fleet_(fleet), placement_(placement), reports_(reports) {}

  std::vector<FleetFinding> run(bool probed) {
    for (const HostReport& report : reports_) check_host(report);
    check_versions();
    check_nodes();
    for (const FleetModel& model : fleet_.models) check_model(model.name);
    check_other_models();
    for (const FleetModel& model : fleet_.models) check_fingerprint(model.name);
    if (probed)
      for (const FleetModel& model : fleet_.models) check_prefixes(model.name);
    return std::move(findings_);
  }

 private:
  void add(FindingLevel level, const char* check, std::string text) {
    findings_.push_back({level, check, std::move(text)});
  }

  void check_host(const HostReport& report) {
    if (!report.error.empty())
      return add(FindingLevel::kFailure, "reachable",
                 fmt::format("{} ({}): {}", report.name, report.url, report.error));
    if (report.is_ready)
      add(FindingLevel::kOk, "ready", fmt::format("{} is ready", report.name));
    else
      add(FindingLevel::kFailure, "ready",
          fmt::format("{} is {}: {}", report.name, report.is_draining ? "draining" : "not ready",
                      joined(report.reasons, "; ")));
    if (!report.is_read_only)
      add(FindingLevel::kWarning, "read-only",
          fmt::format("{} accepts changes of its models; start it with --read-only", report.name));
  }

  // Adds one finding: the same value on all hosts, or the groups.
  void compare(const char* check, const std::string& subject, const Groups& groups,
               bool is_digest) {
    if (groups.empty()) return;
    if (groups.size() == 1) {
      const auto& [value, hosts] = *groups.begin();
      return add(FindingLevel::kOk, check,
                 fmt::format("{}{} on {} host{}", subject, is_digest ? shown(value) : value,
                             hosts.size(), hosts.size() == 1 ? "" : "s"));
    }
    add(FindingLevel::kFailure, check,
        fmt::format("{}{}", subject, groups_text(groups, is_digest)));
  }

  void check_versions() {
    Groups groups;
    for (const HostReport& report : reports_)
      if (report.error.empty()) groups[report.version].push_back(report.name);
    compare("version", "", groups, false);
  }

  void check_nodes() {
    Groups groups;
    for (const HostReport& report : reports_)
      if (report.error.empty()) groups[report.node].push_back(report.name);
    for (const auto& [node, hosts] : groups)
      if (hosts.size() > 1)
        add(FindingLevel::kWarning, "node name",
            fmt::format("{} call themselves '{}'; start each with its own --node-name",
                        joined(hosts), node));
  }

  // The hosts that serve a model.
  std::vector<const HostReport*> hosts_of(const std::string& model) const {
    std::vector<const HostReport*> hosts;
    for (const Pool& pool : placement_.pools)
      if (std::ranges::find(pool.models, model) != pool.models.end())
        for (const size_t host : pool.hosts)
          if (reports_[host].error.empty()) hosts.push_back(&reports_[host]);
    return hosts;
  }

  bool is_kept_loaded(const std::string& model) const {
    return std::ranges::any_of(placement_.pools, [&](const Pool& pool) {
      return pool.key == PoolKey::kPrefix &&
             std::ranges::find(pool.models, model) != pool.models.end();
    });
  }

  void check_model(const std::string& model) {
    Names without;
    Names unloaded;
    for (const HostReport* report : hosts_of(model)) {
      if (!report->digests.contains(model)) {
        without.push_back(report->name);
      } else if (is_kept_loaded(model) &&
                 std::ranges::find(report->loaded, model) == report->loaded.end()) {
        unloaded.push_back(report->name);
      }
    }
    if (!without.empty())
      add(FindingLevel::kFailure, "model",
          fmt::format("{} is missing on {}", model, joined(without)));
    compare_digests(model);
    if (!unloaded.empty())
      add(FindingLevel::kWarning, "model",
          fmt::format("{} is not loaded on {}; start them with --preload {}", model,
                      joined(unloaded), model));
  }

  void compare_digests(const std::string& model) {
    Groups groups;
    for (const HostReport& report : reports_)
      if (const auto found = report.digests.find(model); found != report.digests.end())
        groups[found->second].push_back(report.name);
    compare("model", model + ": ", groups, true);
  }

  // Models that the hosts file does not name. All hosts serve them.
  void check_other_models() {
    std::set<std::string> others;
    for (const HostReport& report : reports_)
      for (const auto& [model, digest] : report.digests)
        if (std::ranges::find(fleet_.models, model, &FleetModel::name) == fleet_.models.end())
          others.insert(model);
    for (const std::string& model : others) {
      compare_digests(model);
      Names without;
      for (const HostReport& report : reports_)
        if (report.error.empty() && !report.digests.contains(model)) without.push_back(report.name);
      if (!without.empty())
        add(FindingLevel::kWarning, "model",
            fmt::format("{} is missing on {}, and the hosts file does not name it", model,
                        joined(without)));
    }
  }

  void check_fingerprint(const std::string& model) {
    Groups groups;
    for (const HostReport* report : hosts_of(model))
      if (const auto found = report->fingerprints.find(model); found != report->fingerprints.end())
        groups[found->second].push_back(report->name);
    compare("fingerprint", model + ": ", groups, true);
  }

  // The digest of a prefix depends on the weights, the KV type and the tokens. If two hosts have
  // one digest of the probe in common, all their digests of equal texts are equal.
  void check_prefixes(const std::string& model) {
    Names hosts;
    Names without;
    std::set<std::string> common;
    for (const HostReport* report : hosts_of(model)) {
      const auto found = report->prefixes.find(model);
      if (found == report->prefixes.end()) continue;  // a model that only embeds has no prefixes
      if (found->second.empty()) {
        without.push_back(report->name);
        continue;
      }
      const std::set<std::string> own(found->second.begin(), found->second.end());
      if (hosts.empty()) {
        common = own;
      } else {
        std::erase_if(common, [&](const std::string& digest) { return !own.contains(digest); });
      }
      hosts.push_back(report->name);
    }
    if (!without.empty())
      add(FindingLevel::kWarning, "prefixes",
          fmt::format("{}: {} kept no prefix of the probe", model, joined(without)));
    if (hosts.empty()) return;
    if (common.empty())
      return add(
          FindingLevel::kFailure, "prefixes",
          fmt::format("{}: {} have different digests of the same text; compare --kv-type and "
                      "adapters",
                      model, joined(hosts)));
    add(FindingLevel::kOk, "prefixes",
        fmt::format("{}: the same digests on {} host{}", model, hosts.size(),
                    hosts.size() == 1 ? "" : "s"));
  }

  const Fleet& fleet_;
  const Placement& placement_;
  const std::vector<HostReport>& reports_;
  std::vector<FleetFinding> findings_;
};

const char* level_name(FindingLevel level) {
  constexpr std::array<const char*, 3> kNames = {"ok", "warning", "failure"};
  return kNames[static_cast<size_t>(level)];
}

}  // namespace

std::vector<FleetFinding> findings_of(const Fleet& fleet, const Placement& placement,
                                      const std::vector<HostReport>& reports, bool probed) {
  return Checker(fleet, placement, reports).run(probed);
}

bool has_failure(const std::vector<FleetFinding>& findings) {
  return std::ranges::any_of(findings, [](const FleetFinding& finding) {
    return finding.level == FindingLevel::kFailure;
  });
}

std::string findings_text(const std::vector<FleetFinding>& findings, bool colour) {
  constexpr std::array<const char*, 3> kColours = {"\033[32m", "\033[33m", "\033[31m"};
  std::string text;
  for (const FleetFinding& finding : findings) {
    const std::string level = fmt::format("{:<8}", level_name(finding.level));
    text += colour ? kColours[static_cast<size_t>(finding.level)] + level + "\033[0m" : level;
    text += fmt::format("{:<12} {}\n", finding.check, finding.text);
  }
  return text;
}

Json findings_json(const std::vector<FleetFinding>& findings) {
  Json list = Json::array();
  for (const FleetFinding& finding : findings)
    list.push_back(
        {{"level", level_name(finding.level)}, {"check", finding.check}, {"text", finding.text}});
  return {{"ok", !has_failure(findings)}, {"findings", std::move(list)}};
}

}  // namespace billow::cli

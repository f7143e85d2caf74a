// The table and the JSON of `billow fleet status`.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "cli/client/format.h"
#include "cli/fleet/findings.h"

namespace billow::cli {
namespace {

const char* state_of(const HostReport& report) {
  if (!report.error.empty()) return "unreachable";
  if (report.is_draining) return "draining";
  return report.is_ready ? "ready" : "not ready";
}

std::string per_cent(double ratio) {
  return fmt::format("{:.0f}%", 100 * std::clamp(ratio, 0.0, 1.0));
}

std::string cached_share(uint64_t n_cached, uint64_t n_prompt) {
  if (n_prompt == 0) return "-";
  return per_cent(static_cast<double>(n_cached) / static_cast<double>(n_prompt));
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text.empty() ? "-" : text;
}

Row sum_row(const std::vector<HostReport>& reports) {
  HostReport sum;
  size_t n_ready = 0;
  size_t n_answered = 0;
  for (const HostReport& report : reports) {
    n_answered += report.error.empty();
    n_ready += report.error.empty() && report.is_ready;
    sum.n_waiting += report.n_waiting;
    sum.n_running += report.n_running;
    sum.busy_ratio += report.busy_ratio;
    sum.kv_used_ratio += report.kv_used_ratio;
    sum.n_prompt_tokens += report.n_prompt_tokens;
    sum.n_cached_tokens += report.n_cached_tokens;
  }
  const auto mean = [&](double total) {
    return per_cent(total / static_cast<double>(std::max<size_t>(1, n_answered)));
  };
  return {fmt::format("{} hosts", reports.size()),
          fmt::format("{} ready", n_ready),
          "",
          "",
          std::to_string(sum.n_waiting),
          std::to_string(sum.n_running),
          mean(sum.busy_ratio),
          mean(sum.kv_used_ratio),
          cached_share(sum.n_cached_tokens, sum.n_prompt_tokens)};
}

// A line for each host that does not answer or is not ready.
std::string reasons_text(const std::vector<HostReport>& reports) {
  std::string text;
  for (const HostReport& report : reports) {
    if (!report.error.empty()) text += fmt::format("{}: {}\n", report.name, report.error);
    for (const std::string& reason : report.reasons)
      text += fmt::format("{}: {}\n", report.name, reason);
  }
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string status_table(const std::vector<HostReport>& reports) {
  std::vector<Row> rows;
  for (const HostReport& report : reports) {
    if (!report.error.empty()) {
      rows.push_back({report.name, state_of(report), "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    rows.push_back({report.name, state_of(report), report.version, list_of(report.loaded),
                    std::to_string(report.n_waiting), std::to_string(report.n_running),
                    per_cent(report.busy_ratio), per_cent(report.kv_used_ratio),
                    cached_share(report.n_cached_tokens, report.n_prompt_tokens)});
  }
  if (reports.size() > 1) rows.push_back(sum_row(reports));
  return table_text(
             {"HOST", "STATE", "VERSION", "LOADED", "WAITING", "RUNNING", "BUSY", "KV", "CACHED"},
             rows) +
         reasons_text(reports);
}

Json status_json(const std::vector<HostReport>& reports) {
  Json hosts = Json::array();
  for (const HostReport& report : reports) {
    Json host = {{"name", report.name}, {"url", report.url}, {"state", state_of(report)}};
    if (!report.error.empty()) {
      host["error"] = report.error;
    } else {
      host.update({{"reasons", report.reasons},
                   {"version", report.version},
                   {"node", report.node},
                   {"read_only", report.is_read_only},
                   {"loaded", report.loaded},
                   {"requests_waiting", report.n_waiting},
                   {"requests_running", report.n_running},
                   {"busy_ratio", report.busy_ratio},
                   {"kv_used_ratio", report.kv_used_ratio},
                   {"prompt_tokens", report.n_prompt_tokens},
                   {"prompt_cached_tokens", report.n_cached_tokens}});
    }
    hosts.push_back(std::move(host));
  }
  return {{"hosts", std::move(hosts)}};
}

}  // namespace billow::cli

#include "cli/fleet/drain.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/one_line.h"
#include "http/client.h"

namespace billow::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::chrono::milliseconds kBetween{100};
// Long enough for a busy host. A host that has closed its port refuses a connection immediately.
constexpr std::chrono::milliseconds kTimeout{10'000};
// HAProxy misses a host after two failed checks. The third is for the time that a check takes.
constexpr unsigned kChecks = 3;

// The status of a request on a new connection; 0 if the host did not accept it or did not answer.
int status_of(const FleetHost& host, const char* target, std::string& error) {
  http::Client client(
      {.host = host.endpoint.host, .port = host.endpoint.port},
      {.connect_timeout = kTimeout, .idle_timeout = kTimeout, .headers = key_headers(host)});
  try {
    return client.send({.target = target}).status;
  } catch (const Error& failed) {
    error = one_line(failed.what(), 200);
    return 0;
  }
}

struct Watch {
  std::optional<Clock::time_point> drained{};  // when /readyz answered 503 for the first time
  Clock::time_point ended{};                   // when the host accepted no connection
  size_t n_served = 0;                         // since `drained`
  size_t n_refused = 0;
  std::string refusal{};
};

FleetFinding finding(FindingLevel level, std::string text) {
  return {.level = level, .check = "drain", .text = std::move(text)};
}

std::vector<FleetFinding> judge(const Fleet& fleet, const FleetHost& host, const Watch& watch) {
  if (!watch.drained)
    return {
        finding(FindingLevel::kFailure,
                fmt::format("{} ended without a word: /readyz never answered 503. Start it with "
                            "--drain-delay {}, and stop it with SIGTERM",
                            host.name, kChecks * fleet.check_seconds))};
  const double seconds = Seconds(watch.ended - *watch.drained).count();
  std::vector<FleetFinding> findings;
  if (seconds < kChecks * fleet.check_seconds)
    findings.push_back(finding(
        FindingLevel::kFailure,
        fmt::format(
            "{} closed its port {:.1f} s after /readyz answered 503, and HAProxy needs {} s; "
            "start it with --drain-delay {}",
            host.name, seconds, kChecks * fleet.check_seconds, kChecks * fleet.check_seconds)));
  if (watch.n_refused > 0)
    findings.push_back(
        finding(FindingLevel::kFailure,
                fmt::format("{} refused {} of {} requests while it drained: {}", host.name,
                            watch.n_refused, watch.n_refused + watch.n_served, watch.refusal)));
  if (findings.empty())
    findings.push_back(finding(
        FindingLevel::kOk,
        fmt::format("{} was not ready for {:.1f} s before it closed its port, and served all {} "
                    "requests meanwhile",
                    host.name, seconds, watch.n_served)));
  return findings;
}

}  // namespace

std::vector<FleetFinding> watch_drain(const Fleet& fleet, const FleetHost& host,
                                      std::chrono::seconds patience, bool (*interrupted)()) {
  Watch watch;
  std::string error;
  if (status_of(host, "/readyz", error) == 0)
    return {finding(FindingLevel::kFailure,
                    fmt::format("{} ({}): {}", host.name, host.endpoint.url(), error))};
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < patience && !interrupted()) {
    const Clock::time_point asked = Clock::now();
    const int ready = status_of(host, "/readyz", error);
    if (ready == 0) {
      watch.ended = asked;
      return judge(fleet, host, watch);
    }
    if (ready != 200 && !watch.drained) watch.drained = Clock::now();
    const int served = status_of(host, "/api/tags", error);
    if (watch.drained && served == 200) ++watch.n_served;
    if (watch.drained && served != 200 && served != 0) {
      ++watch.n_refused;
      watch.refusal = fmt::format("status {}", served);
    }
    std::this_thread::sleep_for(kBetween);
  }
  return {finding(FindingLevel::kFailure,
                  fmt::format("{} did not end while it was watched", host.name))};
}

}  // namespace billow::cli

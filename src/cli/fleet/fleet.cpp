// billow fleet: HAProxy's configuration for several hosts, a comparison of the hosts, and a table
// of what they are doing. It changes no host.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/suggestion.h"
#include "cli/client/command_line.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/fleet/drain.h"
#include "cli/fleet/findings.h"
#include "cli/fleet/haproxy.h"
#include "cli/fleet/hosts_file.h"
#include "cli/fleet/placement.h"
#include "cli/fleet/survey.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/program.h"
#include "cli/terminal_line.h"

namespace billow::cli {
namespace {

constexpr std::chrono::seconds kRefresh{2};
constexpr std::chrono::milliseconds kPatience{50};
constexpr std::chrono::seconds kDrainPatience{180};
constexpr double kMaxTimeout = 3600;

struct Options {
  std::string hosts;
  std::string drained;
  double timeout = 2;
  bool json = false;
  bool watch = false;
  bool probe = false;
};

const Interrupt* interrupts = nullptr;  // set while a command watches
bool interrupted() { return interrupts != nullptr && interrupts->signal() != 0; }

// Records signals while it lives.
class Watching {
 public:
  Watching() { interrupts = &interrupt_; }
  ~Watching() { interrupts = nullptr; }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;
  void end_if_interrupted() const {
    if (interrupt_.signal() != 0) end_with(exit_status_of(interrupt_.signal()));
  }

 private:
  Interrupt interrupt_;
};

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Survey survey_of(const Options& options) {
  return {.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000))};
}

void config(const Options& options) {
  const Fleet fleet = read_fleet(options.hosts);
  print_now(haproxy_config(fleet, place(fleet)));
}

// The models that each host serves, also those that it loads on demand.
std::vector<std::vector<std::string>> models_of_hosts(const Fleet& fleet,
                                                      const Placement& placement) {
  std::vector<std::vector<std::string>> models(fleet.hosts.size());
  for (const Pool& pool : placement.pools)
    for (const size_t host : pool.hosts)
      models[host].insert(models[host].end(), pool.models.begin(), pool.models.end());
  return models;
}

std::vector<FleetFinding> drain_findings(const Fleet& fleet, const std::string& name) {
  const auto host = std::ranges::find(fleet.hosts, name, &FleetHost::name);
  if (host == fleet.hosts.end()) {
    std::vector<std::string> names;
    for (const FleetHost& known : fleet.hosts) names.push_back(known.name);
    throw Error(ErrorCode::kInvalidInput,
                "--drain: there is no host '" + name + "'" + did_you_mean(name, names));
  }
  std::fprintf(stderr, "Stop Billow on %s now, for example with 'systemctl stop billow'.\n",
               name.c_str());
  const Watching watching;
  std::vector<FleetFinding> findings = watch_drain(fleet, *host, kDrainPatience, interrupted);
  watching.end_if_interrupted();
  return findings;
}

void check(const Options& options) {
  const Fleet fleet = read_fleet(options.hosts);
  const Placement placement = place(fleet);
  std::vector<FleetFinding> findings;
  if (!options.drained.empty()) {
    findings = drain_findings(fleet, options.drained);
  } else {
    Survey survey = survey_of(options);
    survey.asks_models = true;
    survey.models = models_of_hosts(fleet, placement);
    survey.probes = options.probe;
    findings = findings_of(fleet, placement, ask_hosts(fleet, survey), options.probe);
  }
  print_now(options.json ? text_of(findings_json(findings))
                         : findings_text(findings, shows_colours(STDOUT_FILENO)));
  if (has_failure(findings)) end_with(kFailed);
}

void status(const Options& options) {
  const Fleet fleet = read_fleet(options.hosts);
  const Survey survey = survey_of(options);
  const auto shown = [&] {
    const std::vector<HostReport> reports = ask_hosts(fleet, survey);
    return options.json ? text_of(status_json(reports)) : status_table(reports);
  };
  if (!options.watch) return print_now(shown());
  const Watching watching;
  const bool is_terminal = is_smart_terminal(STDOUT_FILENO) && !options.json;
  while (true) {
    // The next table takes the place of this one.
    print_now((is_terminal ? "\033[H\033[2J" : "") + shown() + (is_terminal ? "" : "\n"));
    const auto next = std::chrono::steady_clock::now() + kRefresh;
    while (std::chrono::steady_clock::now() < next) {
      watching.end_if_interrupted();
      std::this_thread::sleep_for(kPatience);
    }
  }
}

struct Action {
  const char* name;
  void (*run)(const Options& options);
  std::vector<const char*> options;  // that not all actions have
};

const std::vector<Action>& actions() {
  static const std::vector<Action> rows = {
      {"config", config, {}},
      {"check", check, {"--json", "--timeout", "--probe", "--drain"}},
      {"status", status, {"--json", "--timeout", "--watch"}},
  };
  return rows;
}

// Refuses an option that the action does not have.
void check_options(const CLI::App& command, const Action& action) {
  for (const char* name : {"--json", "--timeout", "--probe", "--drain", "--watch"}) {
    const bool is_own =
        std::ranges::any_of(action.options, [&](const std::string& own) { return own == name; });
    if (command.count(name) > 0 && !is_own)
      refuse_usage(fmt::format("'billow fleet {}' has no option {}", action.name, name));
  }
  if (command.count("--probe") > 0 && command.count("--drain") > 0)
    refuse_usage("--probe and --drain are two different checks");
}

void run(const CLI::App& command, const std::string& name, const Options& options) {
  const auto action = std::ranges::find(actions(), name, &Action::name);
  if (action == actions().end())
    refuse_usage(
        fmt::format("unknown action '{}'; the actions are config, check and status", name));
  if (options.hosts.empty()) refuse_usage("--hosts FILE is required");
  if (!(options.timeout > 0 && options.timeout <= kMaxTimeout))
    refuse_usage("--timeout must be above 0 and at most 3600 seconds");
  check_options(command, *action);
  action->run(options);
}

}  // namespace

void add_fleet(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  const auto self = std::make_shared<CLI::App*>();
  CLI::App& command = add_client_command(
      app,
      {.name = "fleet",
       .description =
           "Several servers behind HAProxy: configure it, compare the servers, watch them",
       .arguments = "config|check|status --hosts FILE",
       .min = 1,
       .max = 1,
       .variables = {}},
      [options, self](const std::vector<std::string>& words) { run(**self, words[0], *options); });
  *self = &command;
  command.add_option("--hosts", options->hosts, "The hosts and models of the fleet, a TOML file");
  command.add_flag("--json", options->json, "Print JSON (check, status)");
  command.add_option("--timeout", options->timeout,
                     "Seconds to wait for an answer of a host; default: 2 (check, status)");
  command.add_flag("--probe", options->probe,
                   "Also compare the digests of prefixes: each host evaluates a short prompt with "
                   "each of its models (check)");
  command.add_option("--drain", options->drained,
                     "Only watch this host while you stop it: whether it drains long enough for "
                     "HAProxy (check)");
  command.add_flag("--watch", options->watch, "Refresh every 2 s until Ctrl-C (status)");
  command.footer(
      "Actions:\n"
      "  config   print HAProxy's whole configuration\n"
      "  check    compare versions, models and fingerprints; exit status 1 if they disagree\n"
      "  status   print a table of the hosts\n\n"
      "A host that does not answer is a row, and the others are shown.");
}

}  // namespace billow::cli

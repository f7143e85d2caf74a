// billow doctor: looks at the machine, the settings and the server, and says what is wrong and what
// to do. Changes nothing.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/api_key.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/option_checks.h"
#include "cli/port_owner.h"
#include "cli/program.h"
#include "cli/serve_settings.h"
#include "cli/terminal_line.h"
#include "cli/variable.h"
#include "cli/version.h"
#include "cpu/cores.h"
#include "cpu/memory.h"
#include "http/client.h"
#include "kernels/kernel_table.h"
#include "llama/find.h"
#include "scheduler/environment.h"
#include "server/open_files.h"
#include "store/store.h"

namespace billow::cli {
namespace {

enum class Level : uint8_t { kOk, kWarning, kFailure };

struct Finding {
  Level level = Level::kOk;
  std::string name;
  std::string text;
  std::string advice = {};  // what to do; empty after success
};

constexpr uint64_t kLowMemory = 1ull << 30;
constexpr uint64_t kLowDisk = 8ull << 30;
constexpr rlim_t kFewFiles = 4096;
constexpr std::chrono::milliseconds kServerTimeout{10'000};

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string processor_name() {
  std::istringstream lines(file_text("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

Finding check_kernels() {
  Finding found{.name = "processor", .text = {}};
  const bool is_forced = !variable("BILLOW_ISA").value_or("").empty();
  try {
    const std::string table(kernels::select_table().name);
    found.text = fmt::format("{}, {} usable cores, kernels {}", processor_name(),
                             cpu::usable_cores(), table);
    if (table == "scalar") {
      found.level = Level::kWarning;
      found.advice = "models run slowly: the processor has no AVX2, or BILLOW_ISA hides it";
    } else if (is_forced) {
      found.level = Level::kWarning;
      found.advice = "BILLOW_ISA forces these kernels; unset it to use the best ones";
    }
  } catch (const Error& error) {
    found.level = Level::kFailure;
    found.text = error.what();
    found.advice = "unset BILLOW_ISA";
  }
  return found;
}

Finding check_load() {
  double load = 0;
  std::istringstream(file_text("/proc/loadavg")) >> load;
  const int n_cores = cpu::usable_cores();
  Finding found{.name = "load",
                .text = fmt::format("{:.1f} tasks on {} cores in the last minute", load, n_cores)};
  if (load > 0.8 * n_cores) {
    found.level = Level::kWarning;
    found.advice = "other programs use the processor: models are slower meanwhile";
  }
  return found;
}

Finding check_memory() {
  const std::string meminfo = file_text("/proc/meminfo");
  const uint64_t total = cpu::memory_of_meminfo(meminfo, "MemTotal");
  const uint64_t available = cpu::memory_of_meminfo(meminfo, "MemAvailable");
  const uint64_t usable = cpu::usable_memory();
  Finding found{
      .name = "memory",
      .text = fmt::format("{} of {} are available", format_byte_size(std::min(available, usable)),
                          format_byte_size(total))};
  if (usable < total)
    found.text += fmt::format("; the control group or the system limits this process to {}",
                              format_byte_size(usable));
  if (std::min(available, usable) < kLowMemory) {
    found.level = Level::kWarning;
    found.advice =
        "close programs, or give the container more memory: models need their size in memory";
  }
  return found;
}

Finding check_huge_pages() {
  const std::string setting = file_text("/sys/kernel/mm/transparent_hugepage/enabled");
  Finding found{.name = "huge pages", .text = "transparent huge pages are on"};
  if (setting.empty()) {
    found.text = "the system does not report them";
  } else if (setting.find("[never]") != std::string::npos) {
    found.level = Level::kWarning;
    found.text = "transparent huge pages are off";
    found.advice =
        "models are a few per cent slower; "
        "write 'madvise' to /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return found;
}

Finding check_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  // The server raises its soft limit to the hard one.
  const rlim_t max = std::min<rlim_t>(limit.rlim_max, server::kMaxOpenFiles);
  Finding found{.name = "open files", .text = fmt::format("at most {}", max)};
  if (max < kFewFiles) {
    found.level = Level::kWarning;
    found.advice = fmt::format(
        "a server with many clients needs more: ulimit -Hn {}, or LimitNOFILE= in its unit",
        kFewFiles);
  }
  return found;
}

// Reads the settings as the server does at its start. Throws if the server would not start. `path`
// becomes the configuration file, if any, and `n_settings` the number of its settings.
server::Options read_settings(const scheduler::Warn& warn, std::string& path, size_t& n_settings) {
  CLI::App app;
  const std::shared_ptr<ServeOptions> options = declare_serve(app);
  refuse_wrong_counts(app);
  std::vector<std::string> words = {"serve"};
  path = find_config(words);
  if (!path.empty()) {
    add_config(*app.get_subcommand("serve"), words);
    n_settings = words.size() - 2;
  }
  std::ranges::reverse(words);  // as the library wants them
  app.parse(std::move(words));
  return serve_settings(*options, serve_environment(*options, warn), warn).server;
}

// If the server would start with the settings, `models` becomes its folder of models.
Finding check_settings(std::string& models) {
  Finding found{.name = "settings", .text = "no configuration file"};
  std::string warnings = log::level_fault();
  const auto warn = [&](const std::string& text) {
    warnings += (warnings.empty() ? "" : "; ") + text;
  };
  std::string path;
  size_t n_settings = 0;
  try {
    models = read_settings(warn, path, n_settings).models;
  } catch (const std::exception& error) {
    found.level = Level::kFailure;
    found.text = error.what();
    if (!path.empty() && found.text.find(path) == std::string::npos)
      found.text += " (with the settings of " + path + ")";
    found.advice = "correct the settings: the server does not start with them";
    return found;
  }
  if (!path.empty()) found.text = fmt::format("{} settings of {}", n_settings, path);
  if (warnings.empty()) return found;
  found.level = Level::kWarning;
  found.text += "; " + warnings;
  found.advice = "correct the variables: the server ignores their values";
  return found;
}

// The nearest folder above a path that exists.
std::string existing_parent(std::filesystem::path path) {
  std::error_code failed;
  while (!std::filesystem::exists(path, failed) && path.has_parent_path() &&
         path != path.parent_path())
    path = path.parent_path();
  return path.string();
}

Finding check_store(const std::string& folder) {
  Finding found{.name = "models", .text = {}};
  if (folder.empty()) {
    return {Level::kFailure, "models", "there is no folder for models, because HOME is not set",
            "set HOME or BILLOW_MODELS"};
  }
  try {
    const store::Store store(folder);
    store.check_readable();
    const std::string parent = existing_parent(folder);
    std::error_code failed;
    if (!std::filesystem::exists(folder, failed)) {
      found.text = folder + " does not exist yet; the first pull or create makes the folder";
    } else {
      found.text = fmt::format("{} models in {}", store.names().size(), folder);
    }
    if (::access(parent.c_str(), W_OK) != 0) {
      found.level = Level::kWarning;
      found.advice = "this user cannot write to " + parent + ": pull, create and rm will fail";
    }
  } catch (const std::exception& error) {
    found.level = Level::kFailure;
    found.text = error.what();
    found.advice = "check who owns the folder, or name another one with BILLOW_MODELS";
  }
  return found;
}

Finding check_disk(const std::string& folder) {
  const std::string path = existing_parent(folder);
  struct statvfs status{};
  if (path.empty() || ::statvfs(path.c_str(), &status) != 0)
    return {Level::kWarning, "disk", "the system does not report the free space of " + path, {}};
  const uint64_t free = uint64_t{status.f_bavail} * status.f_frsize;
  const uint64_t total = uint64_t{status.f_blocks} * status.f_frsize;
  Finding found{.name = "disk",
                .text = fmt::format("{} of {} are free for {}", format_byte_size(free),
                                    format_byte_size(total), folder)};
  if (free < kLowDisk) {
    found.level = Level::kWarning;
    found.advice =
        "remove models with 'billow rm', or name a folder on another disk with BILLOW_MODELS";
  }
  return found;
}

// A server answers, but asks for an API key.
struct KeyIsNeeded {};

std::optional<Json> get_json(const scheduler::Endpoint& server, const std::string& target) {
  http::Client client({.host = server.host, .port = server.port},
                      {.connect_timeout = kServerTimeout,
                       .idle_timeout = kServerTimeout,
                       .headers = key_headers()});
  const http::Response reply = client.send({.target = target});
  if (reply.status == 401) throw KeyIsNeeded();
  if (reply.status != 200) return std::nullopt;
  const Json json = Json::parse(reply.body, nullptr, false);
  return json.is_object() ? std::optional<Json>(json) : std::nullopt;
}

Finding check_server(const scheduler::Endpoint& server) {
  Finding found{.name = "server", .text = {}};
  const std::optional<PortOwner> owner = owner_of_port(server.port);
  const std::string held = owner && !owner->program.empty()
                               ? fmt::format(" (process {}, {})", owner->pid, owner->program)
                               : "";
  try {
    if (const auto own = get_json(server, "/api/server"); own && own->contains("version")) {
      found.text = fmt::format("Billow {} answers at {}{}", own->at("version").get<std::string>(),
                               server.url(), held);
      return found;
    }
    const auto other = get_json(server, "/api/version");
    found.level = Level::kWarning;
    found.text = other && other->contains("version")
                     ? fmt::format("Ollama {} answers at {}{}",
                                   other->at("version").get<std::string>(), server.url(), held)
                     : fmt::format("another program answers at {}{}", server.url(), held);
    found.advice =
        "stop that program, or start Billow at another address: billow serve --host "
        "127.0.0.1:11435";
  } catch (const KeyIsNeeded&) {
    found.level = Level::kWarning;
    found.text =
        fmt::format("a server answers at {}{}, but it needs an API key", server.url(), held);
    found.advice = "to check it, set BILLOW_API_KEY to one of its keys";
  } catch (const std::exception& error) {
    if (!owner) {
      found.text = "no server at " + server.url() + "; start one with 'billow serve'";
      return found;
    }
    found.level = Level::kFailure;
    found.text = fmt::format("port {} is in use{}, but nothing answers: {}", server.port, held,
                             error.what());
    found.advice =
        "stop that program, or start Billow at another address: billow serve --host "
        "127.0.0.1:11435";
  }
  return found;
}

Finding check_llama_server(const std::string& wanted) {
  Finding found{.name = "llama-server", .text = {}};
  try {
    found.text = llama::find_server(wanted).value_or(
        "not installed; only needed for models and projectors that Billow does not support");
  } catch (const Error& error) {
    found.level = Level::kFailure;
    found.text = error.what();
    found.advice = "correct BILLOW_LLAMA_SERVER";
  }
  return found;
}

std::string level_name(Level level) {
  return level == Level::kOk ? "ok" : level == Level::kWarning ? "warning" : "failure";
}

std::string report(const std::vector<Finding>& findings, bool colour) {
  constexpr std::array<const char*, 3> kColours = {"\033[32m", "\033[33m", "\033[31m"};
  std::string text = version_text() + "\n";
  for (const Finding& found : findings) {
    const std::string level = fmt::format("{:<8}", level_name(found.level));
    text += (colour ? kColours[static_cast<size_t>(found.level)] + level + "\033[0m" : level) +
            fmt::format("{:<13}{}\n", found.name, found.text);
    if (!found.advice.empty()) text += fmt::format("{:21}-> {}\n", "", found.advice);
  }
  return text;
}

Json report_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& found : findings)
    list.push_back({{"check", found.name},
                    {"level", level_name(found.level)},
                    {"text", found.text},
                    {"advice", found.advice}});
  return {{"version", version_text()}, {"checks", std::move(list)}};
}

void examine(bool json) {
  // check_settings() reports wrong variables.
  const scheduler::Environment environment =
      scheduler::read_environment(variable, [](const std::string&) {});
  std::string models = environment.models;
  const Finding settings = check_settings(models);
  const std::vector<Finding> findings = {check_kernels(),
                                         check_load(),
                                         check_memory(),
                                         check_huge_pages(),
                                         check_files(),
                                         settings,
                                         check_store(models),
                                         check_disk(models),
                                         check_server(environment.host.for_clients()),
                                         check_llama_server(environment.llama_server)};
  const std::string text =
      json ? report_json(findings).dump(2) + "\n" : report(findings, shows_colours(STDOUT_FILENO));
  std::fwrite(text.data(), 1, text.size(), stdout);
  const bool failed = std::ranges::any_of(
      findings, [](const Finding& found) { return found.level == Level::kFailure; });
  if (failed) throw CLI::RuntimeError(kFailed);
}

// Asks the server of these settings whether it runs, which needs no API key. Throws Error if it
// does not.
void check_alive() {
  std::string path;
  size_t n_settings = 0;
  const server::Options own = read_settings([](const std::string&) {}, path, n_settings);
  scheduler::Endpoint address;
  address.host = own.host;
  address.port = own.port;
  address = address.for_clients();
  if (own.host == "::") address.host = "localhost";  // IPv4 works, too, and may be all there is
  const bool is_unix = own.host.empty();
  const std::string name = is_unix ? "unix:" + own.socket_path : address.url();
  http::Client client(is_unix ? http::Endpoint{.socket_path = own.socket_path}
                              : http::Endpoint{.host = address.host, .port = address.port},
                      {.connect_timeout = kServerTimeout, .idle_timeout = kServerTimeout});
  const http::Response reply = client.send({.target = "/healthz"});
  if (reply.status != 200)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} answers {} to GET /healthz", name, reply.status));
  fmt::print("the server at {} runs\n", name);
}

}  // namespace

void add_doctor(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Check the machine, the settings and the server, and say what to do");
  auto json = std::make_shared<bool>(false);
  auto alive = std::make_shared<bool>(false);
  CLI::Option* as_json = command->add_flag("--json", *json, "Print JSON");
  command
      ->add_flag("--alive", *alive,
                 "Check only whether the server runs. Needs no API key. Exit status 1: no")
      ->excludes(as_json);
  command->callback([json, alive] { *alive ? check_alive() : examine(*json); });
}

}  // namespace billow::cli

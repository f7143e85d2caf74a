#include "scheduler/environment.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/go_text.h"
#include "base/text.h"
#include "scheduler/keep_alive.h"

namespace billow::scheduler {
namespace {

struct Value {
  std::string name;  // name of the variable
  std::string text;  // not empty
  const Warn& warn;

  void warn_ignored(std::string_view what) const {
    warn(fmt::format("{}='{}' is not a valid {}; the default is used", name, text, what));
  }
};

std::string cleaned(std::string_view text) { return std::string(trimmed(trimmed(text), "\"'")); }

template <typename Integer>
std::optional<Integer> integer_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void assign(bool& field, const Value& value) { field = go_bool(value.text).value_or(true); }
void assign(std::optional<bool>& field, const Value& value) {
  field = go_bool(value.text).value_or(true);
}
void assign(std::string& field, const Value& value) { field = value.text; }
void assign(uint64_t& field, const Value& value) {
  const std::optional<uint64_t> number = integer_of<uint64_t>(value.text);
  if (!number) return value.warn_ignored("count");
  field = *number;
}
void assign(std::optional<uint64_t>& field, const Value& value) {
  if (const auto known = integer_of<uint64_t>(value.text)) {
    field = known;
  } else {
    value.warn_ignored("count");
  }
}
void assign(Endpoint& field, const Value& value) {
  field = parse_endpoint(value.text, value.name, value.warn);
}
void assign(std::vector<std::string>& field, const Value& value) {
  field.clear();
  for (std::string_view rest = value.text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string entry(trimmed(rest.substr(0, comma), " \t"));
    if (!entry.empty()) field.push_back(std::move(entry));
    if (comma == rest.size()) return;
    rest.remove_prefix(comma + 1);
  }
}
void assign(DebugLevel& field, const Value& value) {
  if (const std::optional<bool> truth = go_bool(value.text)) {
    field = *truth ? DebugLevel::kDebug : DebugLevel::kOff;
  } else if (const std::optional<int64_t> level = integer_of<int64_t>(value.text)) {
    field = *level >= 2 ? DebugLevel::kTrace : DebugLevel::kOff;
  } else {
    field = DebugLevel::kDebug;
  }
}

// Parses Go's durations, or whole seconds. Values below `min` mean kForever.
void assign_duration(Duration& field, const Value& value, Duration min) {
  Duration duration{};
  if (const std::optional<int64_t> seconds = integer_of<int64_t>(value.text)) {
    duration = *seconds < 0 ? Duration(-1) : keep_alive_from_seconds(static_cast<double>(*seconds));
  } else {
    try {
      duration = parse_duration(value.text);
    } catch (const Error&) {
      return value.warn_ignored("duration, like 5m or 300");
    }
  }
  field = duration < min ? kForever : duration;
}

template <auto kField>
void set(Environment& environment, const Value& value) {
  assign(environment.*kField, value);
}
void set_keep_alive(Environment& environment, const Value& value) {
  assign_duration(environment.keep_alive, value, Duration::zero());
}
void set_load_timeout(Environment& environment, const Value& value) {
  assign_duration(environment.load_timeout, value, Duration(1));
}
void set_kv_cache_type(Environment& environment, const Value& value) {
  constexpr std::array<std::string_view, 4> kTypes = {"f16", "q8_0", "q4_0", "f32"};
  if (std::ranges::find(kTypes, value.text) == kTypes.end())
    return value.warn_ignored("type of keys and values: f16, q8_0, q4_0 or f32");
  environment.kv_cache_type = value.text;
}
void set_web_page(Environment& environment, const Value& value) {
  if (const std::optional<bool> truth = go_bool(value.text)) {
    environment.web_page = *truth;
  } else if (value.text == "on" || value.text == "off") {
    environment.web_page = value.text == "on";
  } else {
    value.warn_ignored("switch: on or off");
  }
}
void set_engine(Environment& environment, const Value& value) {
  const std::optional<Engine> engine = find_engine(value.text);
  if (!engine) return value.warn_ignored("engine: auto, billow or llama");
  environment.engine = *engine;
}

struct Row {
  std::string_view name;  // without the prefix
  void (*set)(Environment&, const Value&);
};

constexpr Row kRows[] = {
    {"HOST", set<&Environment::host>},
    {"MODELS", set<&Environment::models>},
    {"KEEP_ALIVE", set_keep_alive},
    {"LOAD_TIMEOUT", set_load_timeout},
    {"NUM_PARALLEL", set<&Environment::n_parallel>},
    {"MAX_LOADED_MODELS", set<&Environment::n_max_loaded>},
    {"MAX_QUEUE", set<&Environment::n_max_queue>},
    {"CONTEXT_LENGTH", set<&Environment::context_length>},
    {"FLASH_ATTENTION", set<&Environment::flash_attention>},
    {"KV_CACHE_TYPE", set_kv_cache_type},
    {"GPU_OVERHEAD", set<&Environment::gpu_overhead_bytes>},
    {"SCHED_SPREAD", set<&Environment::spread>},
    {"ORIGINS", set<&Environment::origins>},
    {"DEBUG", set<&Environment::debug>},
    {"DEBUG_LOG_REQUESTS", set<&Environment::log_requests>},
    {"NOHISTORY", set<&Environment::no_history>},
    {"NOPRUNE", set<&Environment::no_prune>},
    {"NO_CLOUD", set<&Environment::no_cloud>},
    {"REMOTES", set<&Environment::remotes>},
    {"GO_TEMPLATE", set<&Environment::go_template>},
    {"EDITOR", set<&Environment::editor>},
    {"AUTH", set<&Environment::auth>},
    {"LLM_LIBRARY", set<&Environment::llm_library>},
    {"VULKAN", set<&Environment::vulkan>},
    {"IGPU_ENABLE", set<&Environment::igpu>},
    {"MAX_TRANSFER_STREAMS", set<&Environment::n_transfer_streams>},
    {"CLOUD_BASE_URL", set<&Environment::cloud_base_url>},
    {"PACKED_LIMIT", set<&Environment::packed_limit>},
    {"SESSIONS_LIMIT", set<&Environment::sessions_limit>},
    {"OTLP", set<&Environment::otlp>},
    {"REGISTRY_MIRROR", set<&Environment::registry_mirror>},
    {"API_KEYS", set<&Environment::api_keys>},
    {"WEB_PAGE", set_web_page},
    {"ENGINE", set_engine},
    {"LLAMA_SERVER", set<&Environment::llama_server>},
    {"STREAM_INTERVAL", set<&Environment::stream_interval>},
    {"DRAFT_MAX", set<&Environment::max_draft>},
    {"MAX_PASS_TIME", set<&Environment::max_pass_time>},
    {"N_BATCH", set<&Environment::n_batch>},
    {"N_UBATCH", set<&Environment::n_ubatch>},
    {"N_SEQ_MAX", set<&Environment::n_seq_max>},
    {"CONTEXT_SIZE", set<&Environment::context_size>},
    {"MAX_BATCHES", set<&Environment::max_batches>},
};

struct HostPort {
  std::string_view host;
  std::string_view port;
};

// Returns nullopt if the text has no port, or is an IPv6 address without brackets.
std::optional<HostPort> split_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (host.find_first_of("[]") != std::string_view::npos) return std::nullopt;
  return HostPort{host, text.substr(colon + 1)};
}

// Returns an address in its shortest form, and any other name unchanged.
std::string host_of(std::string_view text) {
  const std::string name(trimmed(text, "[]"));
  std::array<unsigned char, sizeof(in6_addr)> address{};
  std::array<char, INET6_ADDRSTRLEN> form{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, name.c_str(), address.data()) == 1 &&
        inet_ntop(family, address.data(), form.data(), form.size()) != nullptr)
      return form.data();
  }
  return std::string(text);
}

}  // namespace

Endpoint parse_endpoint(std::string_view text, std::string_view name, const Warn& warn) {
  Endpoint endpoint;
  if (text == "ollama.com") return {"https", "ollama.com", 443, ""};
  if (const size_t at = text.find("://"); at != std::string_view::npos) {
    endpoint.scheme = std::string(text.substr(0, at));
    text.remove_prefix(at + 3);
    if (endpoint.scheme == "http") endpoint.port = 80;
    if (endpoint.scheme == "https") endpoint.port = 443;
  }
  const size_t slash = std::min(text.find('/'), text.size());
  if (slash < text.size()) endpoint.path = std::string(text.substr(slash + 1));
  text = text.substr(0, slash);
  const std::optional<HostPort> split = split_port(text);
  if (!split) {
    if (!text.empty()) endpoint.host = host_of(text);
    return endpoint;
  }
  endpoint.host = host_of(split->host);
  if (const auto port = integer_of<uint16_t>(split->port)) {
    endpoint.port = *port;
  } else {
    warn(fmt::format("{}: '{}' is not a port from 0 to 65535; the default {} is used", name,
                     split->port, endpoint.port));
  }
  return endpoint;
}

std::string Endpoint::url() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}{}{}", scheme, is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "",
                     port, path.empty() ? "" : "/", path);
}

Endpoint Endpoint::for_clients() const {
  Endpoint reachable = *this;
  if (host.empty() || host == "0.0.0.0") reachable.host = "127.0.0.1";
  if (host == "::") reachable.host = "::1";
  return reachable;
}

Environment read_environment(const Lookup& lookup, const Warn& warn) {
  Environment environment;
  const std::string home = lookup("HOME").value_or("");
  if (!home.empty()) environment.models = home + "/.ollama/models";
  for (const Row& row : kRows) {
    for (const std::string_view prefix : {"BILLOW_", "OLLAMA_"}) {
      const std::string name = fmt::format("{}{}", prefix, row.name);
      const std::optional<std::string> found = lookup(name);
      const std::string text = found ? cleaned(*found) : std::string();
      if (text.empty()) continue;
      row.set(environment, {name, text, warn});
      break;
    }
  }
  return environment;
}

Options planner_options(const Environment& environment, uint64_t budget_bytes) {
  Options options;
  options.budget_bytes = budget_bytes;
  options.n_parallel = environment.n_parallel == 0 ? kAutoParallel : environment.n_parallel;
  options.n_max_loaded = environment.n_max_loaded;
  options.n_max_queue = environment.n_max_queue;
  options.keep_alive = environment.keep_alive;
  options.load_timeout = environment.load_timeout;
  return options;
}

}  // namespace billow::scheduler

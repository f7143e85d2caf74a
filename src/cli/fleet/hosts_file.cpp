#include "cli/fleet/hosts_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/suggestion.h"
#include "base/text.h"
#include "cli/api_key.h"
#include "store/name.h"

namespace billow::cli {
namespace {

constexpr uintmax_t kMaxFileBytes = 4 << 20;
constexpr size_t kMaxHosts = 4096;
constexpr int64_t kMinBuffer = 16 << 10;
constexpr int64_t kMaxBuffer = 16 << 20;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, where + ": " + what);
}

bool is_safe(std::string_view text, std::string_view also) {
  return !text.empty() && text.size() <= 255 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           also.find(c) != std::string_view::npos;
  });
}

// The bytes of a size like "24G"; 0 if it is none.
uint64_t size_of(const std::string& text) {
  try {
    return parse_byte_size(text);
  } catch (const Error&) {
    return 0;  // the caller refuses it, with the line
  }
}

// One table of the file. Each function takes a key away; finish() refuses what is left.
class Reader {
 public:
  Reader(const toml::table& table, const std::string& path) : table_(&table), path_(path) {
    for (const auto& [key, node] : table) left_.insert(std::string(key.str()));
  }

  std::string where() const { return where_of(*table_); }
  std::string where_of(const toml::node& node) const {
    return fmt::format("{}:{}", path_, std::max<unsigned>(node.source().begin.line, 1));
  }

  std::optional<std::string> text(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return std::nullopt;
    if (const auto* value = node->as_string(); value != nullptr && !value->get().empty())
      return value->get();
    refuse(where_of(*node), fmt::format("'{}' must be a text that is not empty", key));
  }

  std::string required_text(const char* key, const char* table_name) {
    std::optional<std::string> value = text(key);
    if (!value) refuse(where(), fmt::format("a [[{}]] needs the key '{}'", table_name, key));
    return *std::move(value);
  }

  // A text of these characters, and letters and digits.
  std::string word(const char* key, std::string value, std::string_view also) const {
    if (is_safe(value, also)) return value;
    const toml::node* node = table_->get(key);
    refuse(where_of(*node),
           fmt::format("'{}' may have letters, digits and any of {}, not '{}'", key, also, value));
  }

  std::optional<int64_t> number(const char* key, int64_t min, int64_t max) {
    const toml::node* node = take(key);
    if (node == nullptr) return std::nullopt;
    const auto* value = node->as_integer();
    if (value == nullptr || value->get() < min || value->get() > max)
      refuse(where_of(*node),
             fmt::format("'{}' must be a whole number from {} to {}", key, min, max));
    return value->get();
  }

  std::optional<uint64_t> bytes(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return std::nullopt;
    if (const auto* count = node->as_integer(); count != nullptr && count->get() > 0)
      return static_cast<uint64_t>(count->get());
    if (const auto* size = node->as_string())
      if (const uint64_t n_bytes = size_of(size->get()); n_bytes > 0) return n_bytes;
    refuse(where_of(*node), fmt::format("'{}' must be a size like \"24G\" or \"512M\"", key));
  }

  bool flag(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return false;
    if (const auto* value = node->as_boolean()) return value->get();
    refuse(where_of(*node), fmt::format("'{}' must be true or false", key));
  }

  std::vector<std::string> texts(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return {};
    std::vector<std::string> values;
    if (const toml::array* list = node->as_array())
      for (const toml::node& item : *list)
        if (const auto* value = item.as_string()) values.push_back(value->get());
    const toml::array* list = node->as_array();
    if (list == nullptr || list->empty() || values.size() != list->size())
      refuse(where_of(*node), fmt::format("'{}' must be a list of names", key));
    return values;
  }

  // The tables of a list: [[host]].
  std::vector<const toml::table*> tables(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return {};
    std::vector<const toml::table*> found;
    if (const toml::array* list = node->as_array())
      for (const toml::node& item : *list)
        if (const toml::table* table = item.as_table()) found.push_back(table);
    const toml::array* list = node->as_array();
    if (list == nullptr || found.size() != list->size())
      refuse(where_of(*node), fmt::format("write [[{}]] for each {}", key, key));
    return found;
  }

  void finish() const {
    if (left_.empty()) return;
    const std::string& key = *left_.begin();
    refuse(where_of(*table_->get(key)),
           fmt::format("unknown key '{}'{}", key, did_you_mean(key, known_)));
  }

 private:
  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    left_.erase(key);
    return table_->get(key);
  }

  const toml::table* table_;
  std::string path_;
  std::set<std::string> left_;
  std::vector<std::string> known_;
};

scheduler::Endpoint endpoint_of(const Reader& reader, const std::string& address) {
  std::string warning;
  const scheduler::Endpoint endpoint = scheduler::parse_endpoint(
      address, "address", [&](const std::string& text) { warning = text; });
  if (!warning.empty()) refuse(reader.where(), warning);
  const bool has_own_host = endpoint.for_clients() == endpoint && !address.starts_with(':');
  if (endpoint.scheme != "http" || !endpoint.path.empty() || !has_own_host || endpoint.port == 0 ||
      !is_safe(endpoint.host, "-_.:"))
    refuse(reader.where(),
           fmt::format("'address' must be a host and a port like \"10.0.0.1:11434\", not '{}'",
                       address));
  return endpoint;
}

FleetHost host_of(const toml::table& table, const std::string& path) {
  Reader reader(table, path);
  FleetHost host{.name = reader.required_text("name", "host"),
                 .endpoint = endpoint_of(reader, reader.required_text("address", "host"))};
  reader.word("name", host.name, "-_.");
  host.memory_bytes = reader.bytes("memory");
  host.weight = static_cast<unsigned>(reader.number("weight", 1, 256).value_or(host.weight));
  host.n_slots = static_cast<size_t>(
      reader.number("parallel", 1, 1024).value_or(static_cast<int64_t>(host.n_slots)));
  if (const auto variable = reader.text("key-env"))
    host.key_env = reader.word("key-env", *variable, "_");
  reader.finish();
  return host;
}

FleetModel model_of(const toml::table& table, const std::string& path) {
  Reader reader(table, path);
  FleetModel model{.name = reader.required_text("name", "model")};
  model.where = reader.where();
  const std::optional<store::Name> name = store::parse_name(model.name);
  if (!name || !is_safe(model.name, "-_.:/"))
    refuse(model.where, fmt::format("'{}' is not a name of a model", model.name));
  model.name = lower_case(store::short_name(*name));
  model.memory_bytes = reader.bytes("memory");
  model.hosts = reader.texts("hosts");
  if (const auto n = reader.number("replicas", 1, kMaxHosts))
    model.n_replicas = static_cast<size_t>(*n);
  model.is_tail = reader.flag("tail");
  reader.finish();
  if (!model.hosts.empty() && model.n_replicas)
    refuse(model.where, "a model has 'hosts' or 'replicas', not both");
  if (model.is_tail && (!model.hosts.empty() || model.n_replicas))
    refuse(model.where, "a model with 'tail' has neither 'hosts' nor 'replicas'");
  if (model.hosts.empty() && !model.memory_bytes)
    refuse(model.where,
           fmt::format("model '{}' needs 'memory' (see 'billow plan') or 'hosts'", model.name));
  return model;
}

// Throws for a name that stands twice.
template <typename Item>
void check_unique(const std::vector<Item>& items, const char* kind, const std::string& path) {
  std::set<std::string> names;
  for (const Item& item : items)
    if (!names.insert(item.name).second)
      refuse(path, fmt::format("the name '{}' belongs to two {}s", item.name, kind));
}

void check_hosts(const Fleet& fleet, const std::string& path) {
  if (fleet.hosts.empty()) refuse(path, "there is no [[host]]");
  if (fleet.hosts.size() > kMaxHosts)
    refuse(path, fmt::format("{} hosts are more than {}", fleet.hosts.size(), kMaxHosts));
  check_unique(fleet.hosts, "host", path);
  check_unique(fleet.models, "model", path);
  std::set<std::string> addresses;
  std::vector<std::string> names;
  for (const FleetHost& host : fleet.hosts) {
    names.push_back(host.name);
    if (!addresses.insert(host.endpoint.url()).second)
      refuse(path, fmt::format("two hosts have the address {}", host.endpoint.url()));
  }
  for (const FleetModel& model : fleet.models) {
    std::set<std::string> own;
    for (const std::string& host : model.hosts) {
      if (std::ranges::find(names, host) == names.end())
        refuse(model.where, fmt::format("model '{}': there is no host '{}'{}", model.name, host,
                                        did_you_mean(host, names)));
      if (!own.insert(host).second)
        refuse(model.where, fmt::format("model '{}': host '{}' stands twice", model.name, host));
    }
  }
}

std::string read_text(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) refuse(path, "is a folder; name a TOML file");
  const uintmax_t n_bytes = std::filesystem::file_size(path, failed);
  if (!failed && n_bytes > kMaxFileBytes) refuse(path, "is larger than 4 MiB: no hosts file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw system_error("cannot read the hosts file", path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

http::Headers key_headers(const FleetHost& host) {
  return host.key_env.empty() ? key_headers() : key_headers_of(host.key_env);
}

Fleet parse_fleet(std::string_view text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("{}:{}", path, error.source().begin.line), std::string(error.description()));
  }
  Reader reader(table, path);
  Fleet fleet;
  for (const toml::table* host : reader.tables("host")) fleet.hosts.push_back(host_of(*host, path));
  for (const toml::table* model : reader.tables("model"))
    fleet.models.push_back(model_of(*model, path));
  const auto address = [&](const char* key, std::string& value) {
    if (auto given = reader.text(key)) value = reader.word(key, *std::move(given), "-_.:*[]");
  };
  address("listen", fleet.listen);
  address("metrics", fleet.metrics);
  const auto number = [&](const char* key, unsigned& value, int64_t min, int64_t max) {
    value = static_cast<unsigned>(reader.number(key, min, max).value_or(value));
  };
  number("bound", fleet.bound_percent, 0, 65535);
  if (fleet.bound_percent > 0 && fleet.bound_percent <= 100)
    refuse(path, "'bound' must be 0 or above 100: a host may have more than the mean load");
  number("timeout", fleet.timeout_seconds, 1, 86400);
  number("check-interval", fleet.check_seconds, 1, 60);
  number("max-connections", fleet.n_max_connections, 1, 1'000'000);
  fleet.buffer_bytes = reader.bytes("buffer").value_or(fleet.buffer_bytes);
  if (fleet.buffer_bytes < kMinBuffer || fleet.buffer_bytes > kMaxBuffer)
    refuse(path, "'buffer' must be from \"16K\" to \"16M\"");
  if (auto user = reader.text("user")) fleet.user = reader.word("user", *std::move(user), "-_");
  if (auto file = reader.text("certificate"))
    fleet.certificate = reader.word("certificate", *std::move(file), "-_./");
  reader.finish();
  check_hosts(fleet, path);
  return fleet;
}

Fleet read_fleet(const std::string& path) { return parse_fleet(read_text(path), path); }

}  // namespace billow::cli

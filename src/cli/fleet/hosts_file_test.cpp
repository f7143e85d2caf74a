#include "cli/fleet/hosts_file.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace billow::cli {
namespace {

constexpr const char* kHost = "[[host]]\nname = \"a\"\naddress = \"10.0.0.1:11434\"\n";

std::string refusal(const std::string& text) {
  try {
    parse_fleet(text, "f.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HostsFile, ReadsEveryKey) {
  const Fleet fleet = parse_fleet(R"(
listen = "[::1]:80"
metrics = "*:9000"
bound = 150
buffer = "1M"
timeout = 60
check-interval = 2
max-connections = 90000
user = "haproxy"
certificate = "/etc/ssl/billow.pem"
[[host]]
name = "a"
address = "node-1:8000"
memory = "24G"
weight = 50
parallel = 4
[[host]]
name = "b"
address = "[fd00::1]:8000"
[[model]]
name = "Library/SmolLM2:latest"
memory = 1048576
replicas = 2
[[model]]
name = "qwen:0.5b"
hosts = ["a"]
[[model]]
name = "hf.co/me/rare:Q4_K_M"
memory = "2G"
tail = true
)",
                                  "f.toml");
  EXPECT_EQ(fleet.listen, "[::1]:80");
  EXPECT_EQ(fleet.metrics, "*:9000");
  EXPECT_EQ(fleet.bound_percent, 150u);
  EXPECT_EQ(fleet.buffer_bytes, 1u << 20);
  EXPECT_EQ(fleet.timeout_seconds, 60u);
  EXPECT_EQ(fleet.check_seconds, 2u);
  EXPECT_EQ(fleet.n_max_connections, 90000u);
  EXPECT_EQ(fleet.user, "haproxy");
  EXPECT_EQ(fleet.certificate, "/etc/ssl/billow.pem");
  ASSERT_EQ(fleet.hosts.size(), 2u);
  EXPECT_EQ(fleet.hosts[0].endpoint.url(), "http://node-1:8000");
  EXPECT_EQ(fleet.hosts[0].memory_bytes, 24ull << 30);
  EXPECT_EQ(fleet.hosts[0].weight, 50u);
  EXPECT_EQ(fleet.hosts[0].n_slots, 4u);
  EXPECT_EQ(fleet.hosts[1].endpoint.url(), "http://[fd00::1]:8000");
  EXPECT_EQ(fleet.hosts[1].n_slots, scheduler::kAutoParallel);
  ASSERT_EQ(fleet.models.size(), 3u);
  EXPECT_EQ(fleet.models[0].name, "smollm2");
  EXPECT_EQ(fleet.models[0].memory_bytes, 1u << 20);
  EXPECT_EQ(fleet.models[0].n_replicas, 2u);
  EXPECT_EQ(fleet.models[1].hosts, std::vector<std::string>{"a"});
  EXPECT_EQ(fleet.models[2].name, "hf.co/me/rare:q4_k_m") << "HAProxy compares in lower case";
  EXPECT_TRUE(fleet.models[2].is_tail);
}

TEST(HostsFile, AnAddressWithoutAPortHasTheUsualOne) {
  EXPECT_EQ(parse_fleet("[[host]]\nname = \"a\"\naddress = \"node\"", "").hosts[0].endpoint.port,
            11434);
}

TEST(HostsFile, RefusesWithTheLine) {
  const std::string host = kHost;
  const struct {
    std::string text;
    std::string message;
  } rows[] = {
      {"", "f.toml: there is no [[host]]"},
      {"[[host]]\naddress = \"x\"", "f.toml:1: a [[host]] needs the key 'name'"},
      {"[[host]]\nname = \"x\"", "f.toml:1: a [[host]] needs the key 'address'"},
      {"[[host]]\nname = \"a b\"\naddress = \"x\"",
       "f.toml:2: 'name' may have letters, digits and any of -_., not 'a b'"},
      {"host = 1", "f.toml:1: write [[host]] for each host"},
      {host + "adress = \"x\"", "f.toml:4: unknown key 'adress'; did you mean 'address'?"},
      {"lisen = \"x\"\n" + host, "f.toml:1: unknown key 'lisen'; did you mean 'listen'?"},
      {"listen = \"a b\"\n" + host,
       "f.toml:1: 'listen' may have letters, digits and any of -_.:*[], not 'a b'"},
      {host + "weight = 0", "f.toml:4: 'weight' must be a whole number from 1 to 256"},
      {host + "weight = 1.5", "f.toml:4: 'weight' must be a whole number from 1 to 256"},
      {host + "memory = \"much\"", "f.toml:4: 'memory' must be a size like \"24G\" or \"512M\""},
      {host + "memory = \"50%\"", "f.toml:4: 'memory' must be a size like \"24G\" or \"512M\""},
      {host + host, "f.toml: the name 'a' belongs to two hosts"},
      {host + "[[host]]\nname = \"b\"\naddress = \"10.0.0.1\"",
       "f.toml: two hosts have the address http://10.0.0.1:11434"},
      {host + "[[model]]\nname = \"m\"",
       "f.toml:4: model 'm' needs 'memory' (see 'billow plan') or 'hosts'"},
      {host + "[[model]]\nname = \"m\"\nhosts = [\"b\"]",
       "f.toml:4: model 'm': there is no host 'b'"},
      {host + "[[model]]\nname = \"m\"\nhosts = []", "f.toml:6: 'hosts' must be a list of names"},
      {host + "[[model]]\nname = \"m\"\nhosts = [\"a\", \"a\"]",
       "f.toml:4: model 'm': host 'a' stands twice"},
      {host + "[[model]]\nname = \"m\"\nhosts = [\"a\"]\nreplicas = 1",
       "f.toml:4: a model has 'hosts' or 'replicas', not both"},
      {host + "[[model]]\nname = \"m\"\nmemory = 1\ntail = true\nreplicas = 1",
       "f.toml:4: a model with 'tail' has neither 'hosts' nor 'replicas'"},
      {host + "[[model]]\nname = \"m m\"", "f.toml:4: 'm m' is not a name of a model"},
      {host + "[[model]]\nname = \"m\"\nmemory = 1\n[[model]]\nname = \"M:latest\"\nmemory = 1",
       "f.toml: the name 'm' belongs to two models"},
      {"bound = 100\n" + host,
       "f.toml: 'bound' must be 0 or above 100: a host may have more than the mean load"},
      {"buffer = \"1K\"\n" + host, "f.toml: 'buffer' must be from \"16K\" to \"16M\""},
  };
  for (const auto& row : rows) EXPECT_EQ(refusal(row.text), row.message) << row.text;
  EXPECT_TRUE(refusal("[[host]\n").starts_with("f.toml:1: ")) << refusal("[[host]\n");
}

TEST(HostsFile, RefusesAddressesThatAreNoHostAndPort) {
  for (const char* address : {"https://a", "http://a/path", "0.0.0.0", ":80", "a:0", "a:x", "a b"})
    EXPECT_TRUE(refusal("[[host]]\nname = \"a\"\naddress = \"" + std::string(address) + "\"")
                    .starts_with("f.toml:1: "))
        << address;
}

}  // namespace
}  // namespace billow::cli

#include "cli/fleet/haproxy.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/test_source_dir.h"

namespace billow::cli {
namespace {

std::string config_of(const std::string& text) {
  const Fleet fleet = parse_fleet(text, "f.toml");
  return haproxy_config(fleet, place(fleet));
}

std::string host(const std::string& name, const std::string& rest = "") {
  return "[[host]]\nname = \"" + name + "\"\naddress = \"" + name + ".example\"\n" + rest + "\n";
}

bool has_line(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

// The lines of a backend after its name, with the end of the line before.
std::string backend(const std::string& text, const std::string& name) {
  const size_t begin = text.find("\nbackend " + name + "\n");
  if (begin == std::string::npos) return "";
  const size_t lines = begin + 9 + name.size();
  return text.substr(
      lines, std::min(text.find("\nbackend ", lines + 1), text.find("\n#", lines + 1)) - lines);
}

TEST(Haproxy, TheExampleIsWhatTheCommandMakes) {
  const std::string folder = source_dir() + "/deploy/haproxy/";
  const Fleet fleet = read_fleet(folder + "fleet.toml");
  std::ifstream file(folder + "haproxy.cfg", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), haproxy_config(fleet, place(fleet)))
      << "make it again: billow fleet config --hosts deploy/haproxy/fleet.toml";
}

TEST(Haproxy, AFleetWithoutModelsHasOnePoolByPrefix) {
  const std::string text = config_of(host("a") + host("b"));
  const std::string others = backend(text, "others");
  EXPECT_TRUE(has_line(others, "  balance hash var(txn.key)")) << others;
  EXPECT_TRUE(has_line(others, "  hash-balance-factor 150")) << others;
  EXPECT_TRUE(has_line(text, "  use_backend others-load if by_load"));
  EXPECT_TRUE(has_line(backend(text, "others-load"), "  balance leastconn"));
  EXPECT_EQ(text.find("of_pool"), std::string::npos);
}

TEST(Haproxy, EachPoolHasItsModelsItsHostsAndItsKey) {
  const std::string text = config_of(host("a", "memory = \"8G\"") +
                                     host("b", "memory = \"2G\"\nparallel = 2\nweight = 50") +
                                     "[[model]]\nname = \"large:7b\"\nmemory = \"5G\"\n"
                                     "[[model]]\nname = \"m/small\"\nmemory = \"1G\"\n"
                                     "[[model]]\nname = \"rare\"\nmemory = \"1G\"\ntail = true\n");
  EXPECT_TRUE(has_line(text, "  acl of_pool1 var(txn.model) -m str large:7b"));
  EXPECT_TRUE(has_line(text, "  use_backend pool1-large_7b-load if by_load of_pool1"));
  EXPECT_TRUE(has_line(text, "  use_backend pool1-large_7b if of_pool1"));
  const std::string large = backend(text, "pool1-large_7b");
  EXPECT_NE(large.find("  server a a.example:11434 "), std::string::npos) << large;
  EXPECT_EQ(large.find("  server b "), std::string::npos) << large;
  const std::string small = backend(text, "pool2-m_small");
  EXPECT_NE(small.find(" weight 50 maxconn 8 track hosts/b"), std::string::npos) << small;
  const std::string rare = backend(text, "pool3-rare");
  EXPECT_TRUE(has_line(rare, "  balance hash var(txn.place)")) << rare;
  EXPECT_EQ(rare.find("hash-balance-factor"), std::string::npos) << "one host loads it";
  EXPECT_EQ(backend(text, "pool3-rare-load"), "");
  EXPECT_NE(
      text.find("#   b: billow serve --host b.example:11434 --node-name b --read-only --memory "
                "2G --parallel 2 --preload m/small\n"),
      std::string::npos)
      << text;
}

TEST(Haproxy, SettingsOfTheFile) {
  const std::string text = config_of(
      "bound = 0\nbuffer = \"1M\"\ntimeout = 30\ncheck-interval = 3\nuser = \"haproxy\"\n"
      "listen = \":443\"\nmetrics = \":9\"\ncertificate = \"/etc/x.pem\"\n" +
      host("a"));
  EXPECT_EQ(text.find("hash-balance-factor"), std::string::npos);
  EXPECT_TRUE(has_line(text, "  tune.bufsize 1048576"));
  EXPECT_TRUE(has_line(text, "  timeout server 30s"));
  EXPECT_TRUE(has_line(text, "  user haproxy\n  group haproxy"));
  EXPECT_TRUE(has_line(text, "  bind :443 ssl crt /etc/x.pem alpn h2,http/1.1"));
  EXPECT_TRUE(has_line(text, "  bind :9"));
  EXPECT_NE(text.find(" check inter 3s fall 2 rise 1\n"), std::string::npos);
}

TEST(Haproxy, AHostKeepsItsPlaceOnTheRingWhenOthersJoinOrLeave) {
  const auto hosts = [](const std::vector<std::string>& names) {
    std::vector<FleetHost> made;
    for (const std::string& name : names) made.push_back({.name = name, .endpoint = {}});
    return made;
  };
  const std::vector<uint32_t> three = ring_ids(hosts({"a", "b", "c"}));
  EXPECT_EQ(ring_ids(hosts({"c", "a"})), (std::vector<uint32_t>{three[2], three[0]}));
  std::vector<std::string> many;
  for (int i = 0; i < 4000; ++i) many.push_back("node-" + std::to_string(i));
  const std::vector<uint32_t> ids = ring_ids(hosts(many));
  EXPECT_EQ(std::set<uint32_t>(ids.begin(), ids.end()).size(), many.size());
  for (const uint32_t id : ids) EXPECT_TRUE(id >= 1 && id < (1u << 20)) << id;
}

}  // namespace
}  // namespace billow::cli

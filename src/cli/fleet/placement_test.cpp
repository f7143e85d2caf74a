#include "cli/fleet/placement.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace billow::cli {
namespace {

using Names = std::vector<std::string>;

Fleet fleet_of(const std::string& text) { return parse_fleet(text, "f.toml"); }

std::string hosts(const Names& memories) {
  std::string text;
  for (size_t i = 0; i < memories.size(); ++i) {
    const std::string number = std::to_string(i);
    text += "[[host]]\nname = \"h" + number + "\"\naddress = \"10.0.0." + number + "\"\n" +
            (memories[i].empty() ? "" : "memory = \"" + memories[i] + "\"\n");
  }
  return text;
}

std::string model(const std::string& name, const std::string& rest) {
  return "[[model]]\nname = \"" + name + "\"\n" + rest + "\n";
}

std::string refusal(const std::string& text) {
  try {
    place(fleet_of(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The hosts of a model, by their position.
std::vector<size_t> hosts_of(const Placement& placement, const std::string& name) {
  for (const Pool& pool : placement.pools)
    for (const std::string& model : pool.models)
      if (model == name) return pool.hosts;
  return {};
}

TEST(Placement, WithoutModelsAllHostsServeEverythingByPrefix) {
  const Placement placement = place(fleet_of(hosts({"", ""})));
  EXPECT_TRUE(placement.pools.empty());
  EXPECT_EQ(placement.others, (Pool{.key = PoolKey::kPrefix, .hosts = {0, 1}}));
}

TEST(Placement, ModelsWithRoomRunOnAllHostsInOnePool) {
  const Placement placement = place(fleet_of(hosts({"8G", "8G"}) + model("a", "memory = \"2G\"") +
                                             model("b", "memory = \"4G\"")));
  ASSERT_EQ(placement.pools.size(), 1u);
  EXPECT_EQ(placement.pools[0], (Pool{PoolKey::kPrefix, {0, 1}, {"a", "b"}}));
  EXPECT_EQ(placement.others.key, PoolKey::kModel);
  EXPECT_EQ(placement.preloads, (std::vector<Names>{{"a", "b"}, {"a", "b"}}));
}

TEST(Placement, EightModelsOnFourHostsWithRoomForTwoEach) {
  std::string text = hosts({"8G", "8G", "8G", "8G"});
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    text += model(name, "memory = \"4G\"");
  const Placement placement = place(fleet_of(text));
  for (const Names& preload : placement.preloads) EXPECT_EQ(preload.size(), 2u);
  for (const char* name : {"a", "h"}) EXPECT_EQ(hosts_of(placement, name).size(), 1u);
}

TEST(Placement, TheLargestModelIsPlacedFirstAndWhatIsLeftGoesToTheOneWithFewestHosts) {
  const Placement placement =
      place(fleet_of(hosts({"4G", "10G", "10G"}) + model("small", "memory = \"2G\"") +
                     model("large", "memory = \"8G\"")));
  EXPECT_EQ(hosts_of(placement, "large"), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(hosts_of(placement, "small"), (std::vector<size_t>{0, 1, 2}));
}

TEST(Placement, ReplicasAreExactAndComeBeforeModelsThatTakeWhatIsLeft) {
  const std::string text = hosts({"4G", "4G", "4G"}) + model("most", "memory = \"3G\"") +
                           model("two", "memory = \"2G\"\nreplicas = 2");
  const Placement placement = place(fleet_of(text));
  EXPECT_EQ(hosts_of(placement, "two"), (std::vector<size_t>{1, 2}));
  EXPECT_EQ(hosts_of(placement, "most"), (std::vector<size_t>{0}));
  EXPECT_EQ(refusal(hosts({"4G"}) + model("two", "memory = \"2G\"\nreplicas = 2")),
            "f.toml:5: model 'two': 1 of 2 replicas fit");
}

TEST(Placement, NamedHostsNeedNoMemoryAndOthersDo) {
  const std::string named = model("a", "hosts = [\"h1\"]");
  EXPECT_EQ(hosts_of(place(fleet_of(hosts({"", ""}) + named)), "a"), (std::vector<size_t>{1}));
  EXPECT_EQ(refusal(hosts({"", ""}) + named + model("b", "memory = \"1G\"")),
            "host 'h0' needs 'memory', because models without 'hosts' are placed by the memory of "
            "the hosts");
  EXPECT_EQ(refusal(hosts({"1G"}) + model("a", "memory = \"2G\"\nhosts = [\"h0\"]")),
            "host 'h0' has 1.0 GiB, and the models that name it need 2.0 GiB");
}

TEST(Placement, TailModelsKeepTheirRoomOnEachHost) {
  const std::string text = hosts({"8G", "8G"}) + model("hot", "memory = \"6G\"") +
                           model("rare", "memory = \"4G\"\ntail = true") +
                           model("tiny", "memory = \"1G\"\ntail = true");
  const Placement placement = place(fleet_of(text));
  EXPECT_EQ(hosts_of(placement, "hot"), (std::vector<size_t>{0}));
  EXPECT_EQ(hosts_of(placement, "rare"), (std::vector<size_t>{1}));
  EXPECT_EQ(hosts_of(placement, "tiny"), (std::vector<size_t>{0, 1}));
  for (const Pool& pool : placement.pools)
    EXPECT_EQ(pool.key, pool.models[0] == "hot" ? PoolKey::kPrefix : PoolKey::kModel);
  EXPECT_EQ(placement.preloads, (std::vector<Names>{{"hot"}, {}})) << "tail models are not kept";
}

TEST(Placement, AModelThatFitsNowhereIsRefusedWithBothNumbers) {
  EXPECT_EQ(
      refusal(hosts({"4G", "6G"}) + model("a", "memory = \"7G\"")),
      "f.toml:9: model 'a' needs 7.0 GiB, and no host has more than 6.0 GiB left; add memory, "
      "or write tail = true for a model that may be unloaded");
  EXPECT_EQ(refusal(hosts({"4G"}) + model("a", "memory = \"3G\"") +
                    model("b", "memory = \"2G\"\ntail = true")),
            "f.toml:8: model 'b' needs 2.0 GiB, and no host has more than 1.0 GiB left next to its "
            "models");
}

TEST(Placement, NoHostGetsMoreThanItsMemory) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    unsigned state = seed;
    const auto draw = [&](unsigned n) { return (state = state * 1664525u + 1013904223u) % n; };
    std::string text;
    std::vector<uint64_t> memory;
    Names sizes;
    for (unsigned i = 0; i < 1 + draw(8); ++i) {
      memory.push_back(1 + draw(32));
      sizes.push_back(std::to_string(memory.back()) + "G");
    }
    std::vector<uint64_t> needs;
    for (unsigned i = 0; i < 1 + draw(6); ++i) {
      needs.push_back(1 + draw(16));
      text += model(std::string(1, static_cast<char>('a' + i)),
                    "memory = \"" + std::to_string(needs.back()) + "G\"");
    }
    const Fleet fleet = fleet_of(hosts(sizes) + text);
    Placement placement;
    try {
      placement = place(fleet);
    } catch (const Error&) {
      continue;
    }
    for (size_t host = 0; host < memory.size(); ++host) {
      uint64_t used = 0;
      for (const std::string& name : placement.preloads[host])
        used += needs[static_cast<size_t>(name[0] - 'a')];
      EXPECT_LE(used, memory[host]) << "seed " << seed;
    }
    for (const FleetModel& wish : fleet.models)
      EXPECT_FALSE(hosts_of(placement, wish.name).empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace billow::cli

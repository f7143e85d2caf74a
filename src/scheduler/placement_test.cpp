#include "scheduler/placement.h"

#include <gtest/gtest.h>

namespace billow::scheduler {
namespace {

using std::chrono::seconds;
using Indices = std::vector<size_t>;
using Asks = std::vector<Room::Ask>;

Holder holder(std::string_view key, int session_s, uint64_t granted, uint64_t idle, bool is_idle) {
  return {key, seconds(session_s), granted, idle, is_idle, false, true};
}

TEST(Placement, TakesNothingWithoutNeed) {
  const std::vector<Holder> holders = {holder("a", 1, 100, 50, true)};
  const Room room = make_room(holders, 0, 0);
  EXPECT_TRUE(room.asks.empty() && room.unloads.empty() && room.waits_for.empty());
}

TEST(Placement, TakesIdleMemoryFirst) {
  const std::vector<Holder> holders = {holder("a", 1, 100, 30, false),
                                       holder("b", 9, 100, 40, true), holder("c", 1, 100, 5, true)};
  const Room room = make_room(holders, 60, 0);
  EXPECT_EQ(room.asks, (Asks{{2, 5}, {1, 40}, {0, 15}}));
  EXPECT_TRUE(room.unloads.empty() && room.waits_for.empty());
}

TEST(Placement, UnloadsShortestSessionFirstThenByKey) {
  const std::vector<Holder> holders = {holder("d", 5, 100, 0, true), holder("c", 2, 100, 0, true),
                                       holder("b", 2, 100, 0, true), holder("a", 1, 100, 0, false)};
  EXPECT_EQ(make_room(holders, 100, 0).unloads, (Indices{2}));
  EXPECT_EQ(make_room(holders, 101, 0).unloads, (Indices{2, 1}));
  const Room all = make_room(holders, 301, 0);
  EXPECT_EQ(all.unloads, (Indices{2, 1, 0}));
  EXPECT_EQ(all.waits_for, (Indices{3}));  // the shortest session, but busy
  EXPECT_EQ(make_room(holders, 99999, 0).waits_for, (Indices{3}));
}

TEST(Placement, CountsMemoryOfUnloadedModels) {
  const std::vector<Holder> holders = {holder("a", 1, 100, 10, true),
                                       holder("b", 2, 100, 30, true)};
  const Room room = make_room(holders, 120, 0);
  EXPECT_EQ(room.unloads, (Indices{0}));
  EXPECT_EQ(room.asks, (Asks{{1, 20}}));
}

TEST(Placement, KeepsWaitingForTheSameModel) {
  std::vector<Holder> holders = {holder("a", 1, 100, 0, false), holder("b", 2, 100, 0, false)};
  EXPECT_EQ(make_room(holders, 50, 0).waits_for, (Indices{0}));
  holders[1].is_draining = true;
  EXPECT_EQ(make_room(holders, 50, 0).waits_for, (Indices{1}));
  holders[0].is_idle = true;
  EXPECT_EQ(make_room(holders, 50, 0).unloads, (Indices{0}));
}

TEST(Placement, OnlyTheSameKindFreesAPlace) {
  std::vector<Holder> holders = {holder("a", 1, 100, 0, true), holder("b", 2, 60, 0, true),
                                 holder("c", 3, 100, 0, false)};
  holders[0].takes_the_place = false;
  EXPECT_EQ(make_room(holders, 0, 1).unloads, (Indices{1}));
  const Room room = make_room(holders, 61, 1);
  EXPECT_EQ(room.unloads, (Indices{1, 0}));
  EXPECT_EQ(make_room(holders, 0, 2).waits_for, (Indices{2}));
}

}  // namespace
}  // namespace billow::scheduler

#include "nn/task_order.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace billow::nn {
namespace {

struct Item {
  size_t task;
  size_t item;
  friend bool operator==(const Item&, const Item&) = default;
};

std::vector<size_t> random_ends(std::mt19937& random) {
  std::vector<size_t> ends(1 + random() % 6);
  size_t sum = 0;
  for (size_t& end : ends) end = sum += random() % 40;
  return ends;
}

// Returns all items in order, from runs of random length.
std::vector<Item> items_of(const TaskOrder& order, std::mt19937& random) {
  std::vector<Item> items;
  for (size_t begin = 0; begin < order.n_items();) {
    const size_t end = std::min<size_t>(order.n_items(), begin + 1 + random() % 20);
    order.each_run(begin, end, [&](size_t task, size_t first, size_t last) {
      EXPECT_LT(first, last);
      for (size_t item = first; item < last; ++item) items.push_back({task, item});
    });
    EXPECT_EQ(items.size(), end);
    begin = end;
  }
  return items;
}

TEST(TaskOrder, OnePartHasOneTaskAfterTheOther) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<size_t> ends = random_ends(random);
    std::vector<Item> expected;
    for (size_t task = 0; task < ends.size(); ++task) {
      const size_t n = ends[task] - (task == 0 ? 0 : ends[task - 1]);
      for (size_t item = 0; item < n; ++item) expected.push_back({task, item});
    }
    EXPECT_EQ(items_of(TaskOrder(ends, 1), random), expected);
  }
}

TEST(TaskOrder, EachPartHasItsShareOfEachTask) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::vector<size_t> ends = random_ends(random);
    const size_t n_parts = 1 + random() % 130;
    const TaskOrder order(ends, n_parts);
    std::vector<Item> expected;
    for (size_t part = 0; part < n_parts; ++part) {
      EXPECT_EQ(order.begin_of(part), expected.size());
      for (size_t task = 0; task < ends.size(); ++task) {
        const size_t n = ends[task] - (task == 0 ? 0 : ends[task - 1]);
        for (size_t item = n * part / n_parts; item < n * (part + 1) / n_parts; ++item)
          expected.push_back({task, item});
      }
    }
    EXPECT_EQ(order.begin_of(n_parts), expected.size());
    EXPECT_EQ(items_of(order, random), expected);
  }
}

}  // namespace
}  // namespace billow::nn

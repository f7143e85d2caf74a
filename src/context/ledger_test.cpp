#include "context/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace billow::context {
namespace {

TEST(Ledger, GrantsAllOrNothing) {
  Ledger ledger(100);
  EXPECT_TRUE(ledger.grant(MemoryClass::kWeights, 60));
  EXPECT_FALSE(ledger.grant(MemoryClass::kKvInUse, 41));
  EXPECT_TRUE(ledger.grant(MemoryClass::kKvInUse, 40));
  EXPECT_TRUE(ledger.grant(MemoryClass::kScratch, 0));
  EXPECT_FALSE(ledger.grant(MemoryClass::kScratch, 1));
  EXPECT_FALSE(ledger.grant(MemoryClass::kScratch, UINT64_MAX));
  ledger.move(MemoryClass::kKvInUse, MemoryClass::kKvCached, 30);
  ledger.give_back(MemoryClass::kKvCached, 30);
  const Ledger::Account account = ledger.account();
  EXPECT_EQ(account.of(MemoryClass::kWeights), 60u);
  EXPECT_EQ(account.of(MemoryClass::kKvInUse), 10u);
  EXPECT_EQ(account.of(MemoryClass::kKvCached), 0u);
  EXPECT_EQ(account.total, 70u);
  EXPECT_EQ(account.max, 100u);
  EXPECT_EQ(account.n_refused, 3u);
}

// P-13: the classes sum up to the total, which never exceeds the budget.
TEST(Ledger, P_13_StaysWithinItsBudgetAndAddsUp) {
  constexpr unsigned kSeed = 13;
  constexpr uint64_t kBudget = 1000;
  std::mt19937_64 random(kSeed);
  Ledger ledger(kBudget);
  std::array<uint64_t, kMemoryClasses> held{};
  for (int i = 0; i < 20000; ++i) {
    const size_t at = random() % kMemoryClasses;
    const auto memory_class = static_cast<MemoryClass>(at);
    const uint64_t bytes = random() % 400;
    if (i % 3 == 0) {
      const uint64_t given = std::min(bytes, held[at]);
      ledger.give_back(memory_class, given);
      held[at] -= given;
    } else if (ledger.grant(memory_class, bytes)) {
      held[at] += bytes;
    }
    const Ledger::Account account = ledger.account();
    ASSERT_EQ(account.held, held) << "seed " << kSeed << ", step " << i;
    uint64_t total = 0;
    for (const uint64_t part : held) total += part;
    ASSERT_EQ(account.total, total);
    ASSERT_LE(account.total, kBudget);
  }
}

TEST(Ledger, ASmallerBudgetKeepsGrantsButRefusesNewOnes) {
  Ledger ledger(100);
  ASSERT_TRUE(ledger.grant(MemoryClass::kKvInUse, 80));
  ledger.set_budget(50);
  EXPECT_EQ(ledger.account().total, 80u);
  EXPECT_EQ(ledger.account().left(), 0u);
  EXPECT_FALSE(ledger.grant(MemoryClass::kKvInUse, 1));
  ledger.give_back(MemoryClass::kKvInUse, 40);
  EXPECT_EQ(ledger.account().left(), 10u);
  EXPECT_FALSE(ledger.grant(MemoryClass::kKvInUse, 11));
  EXPECT_TRUE(ledger.grant(MemoryClass::kKvInUse, 10));
  ledger.set_budget(60);
  EXPECT_TRUE(ledger.grant(MemoryClass::kKvInUse, 10));
}

// FI-4: if several threads want the last bytes, one gets them.
TEST(Ledger, FI_4_GrantsTheLastBytesOnce) {
  for (int round = 0; round < 200; ++round) {
    Ledger ledger(100);
    std::atomic<int> n_granted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (ledger.grant(MemoryClass::kKvInUse, 60)) n_granted.fetch_add(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(n_granted.load(), 1);
  }
}

}  // namespace
}  // namespace billow::context

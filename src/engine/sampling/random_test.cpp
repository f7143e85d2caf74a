#include "engine/sampling/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace billow::engine {
namespace {

// The numbers of the authors' own C code for the state 1, 2, 3, 4.
TEST(Random, IsXoshiro256PlusPlus) {
  Random random(Random::State{1, 2, 3, 4});
  for (const uint64_t expected : {41943041u, 58720359u}) EXPECT_EQ(random.next(), expected);
  for (const uint64_t expected :
       {3588806011781223u, 3591011842654386u, 9228616714210784205u, 9973669472204895162u,
        14011001112246962877u, 12406186145184390807u, 15849039046786891736u}) {
    EXPECT_EQ(random.next(), expected);
  }
}

// The state consists of the first four outputs of splitmix64 from 0.
TEST(Random, IsSeededWithSplitMix) {
  Random seeded(0);
  Random expected(Random::State{0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu,
                                0xF88BB8A8724C81ECu});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seeded.next(), expected.next());
}

TEST(Random, UniformIsInTheUnitIntervalAndEvenlyDistributed) {
  constexpr int kDraws = 200000;
  constexpr size_t kBins = 50;
  Random random(7);
  std::vector<int> bins(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++bins[static_cast<size_t>(value * kBins)];
  }
  double chi_square = 0.0;
  for (const int n : bins) {
    const double expected = static_cast<double>(kDraws) / kBins;
    chi_square += (n - expected) * (n - expected) / expected;
  }
  EXPECT_LT(chi_square, 100.0);  // 49 degrees of freedom: 1 in 20000 sequences is above
  EXPECT_GT(chi_square, 15.0);
}

TEST(Random, NeighbouringSeedsDiffer) {
  Random a(1);
  Random b(2);
  for (int i = 0; i < 100; ++i) EXPECT_NE(a.next(), b.next());
}

}  // namespace
}  // namespace billow::engine

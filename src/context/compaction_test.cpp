#include "context/compaction.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace billow::context {
namespace {

struct KeepCase {
  const char* name;
  size_t context, batch, reserve, anchor, keep;
};
void PrintTo(const KeepCase& one, std::ostream* out) { *out << one.name; }

class Keep : public testing::TestWithParam<KeepCase> {};

TEST_P(Keep, IsTheAnchorPlusTheReserveLimitedByMinFreed) {
  const KeepCase& one = GetParam();
  EXPECT_EQ(plan_compaction(one.context, one.anchor, {one.reserve, one.batch}),
            (Compaction{one.anchor, one.keep, one.context - one.keep}));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Keep,
    testing::Values(
        KeepCase{"CK_1", 4096, 64, 0, 100, 100}, KeepCase{"CK_2", 4096, 64, 2, 100, 228},
        KeepCase{"CK_3", 4096, 64, 8, 100, 612}, KeepCase{"CK_4", 4096, 64, 9, 100, 676},
        KeepCase{"CK_5", 4096, 64, 64, 100, 3840}, KeepCase{"CK_6", 4096, 32, 9, 100, 388},
        KeepCase{"CK_7", 4096, 128, 9, 100, 1252}, KeepCase{"CK_8", 4096, 256, 9, 100, 2404},
        KeepCase{"CK_9", 4096, 512, 9, 100, 3840}, KeepCase{"CK_10", 4096, 1, 0, 100, 100},
        KeepCase{"CK_11", 3072, 64, 8, 100, 612}, KeepCase{"CK_12", 2048, 64, 9, 100, 676},
        KeepCase{"CK_13", 1024, 64, 9, 100, 676}, KeepCase{"CK_14", 512, 64, 9, 100, 448},
        KeepCase{"CK_15", 512, 64, 2, 100, 228}, KeepCase{"CK_16", 100, 64, 0, 10, 10},
        KeepCase{"CK_17", 63, 64, 0, 10, 10}, KeepCase{"seed_003", 4096, 64, 9, 42, 618},
        KeepCase{"without_an_anchor", 4096, 64, 0, 0, 1}, KeepCase{"no_batch", 4096, 0, 9, 42, 42}),
    [](const testing::TestParamInfo<KeepCase>& one) { return std::string(one.param.name); });

TEST(Compaction, CK_19_MoreReserveKeepsMore) {
  size_t before = 0;
  for (size_t reserve = 0; reserve < 80; ++reserve) {
    const size_t keep = plan_compaction(4096, 42, {reserve, 64}).keep;
    EXPECT_GE(keep, before);
    before = keep;
  }
  constexpr size_t kHuge = std::numeric_limits<size_t>::max();
  EXPECT_EQ(plan_compaction(4096, 42, {kHuge, kHuge}).keep, 3840u);
}

TEST(Compaction, P_14_KeepsTheAnchorAndFreesEnough_CP_7) {
  constexpr unsigned kSeed = 14;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const size_t context = 2 + random() % (i % 2 == 0 ? 200 : 40000);
    const size_t anchor = random() % (longest_anchor(context) + 1);
    const CompactionOptions options = {random() % 70, 1 + random() % 600};
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", case " << i << ": context " << context
                                    << ", anchor " << anchor);
    const Compaction plan = plan_compaction(context, anchor, options);
    ASSERT_GE(plan.keep, 1u);
    ASSERT_GE(plan.keep, anchor);
    ASSERT_LT(plan.keep, context);
    ASSERT_EQ(plan.keep + plan.drop, context);
    ASSERT_GE(plan.drop,
              context < 128 ? context - context / 2 : std::max<size_t>(64, context / 16));
    if (plan.keep != std::max<size_t>(1, anchor + options.reserve_batches * options.batch)) {
      ASSERT_EQ(plan.drop, min_freed(context));
    }
  }
}

}  // namespace
}  // namespace billow::context

#include "context/sizing.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "base/error.h"

namespace billow::context {
namespace {

size_t context_of(size_t max_context, size_t n_prompt, int64_t num_predict) {
  return right_size({.n_prompt = n_prompt, .num_predict = num_predict, .max_context = max_context})
      .context;
}

struct SizeCase {
  const char* name;
  size_t max_context, n_prompt;
  int64_t num_predict;
  size_t n_answer, context;
};
void PrintTo(const SizeCase& one, std::ostream* out) { *out << one.name; }

class RightSize : public testing::TestWithParam<SizeCase> {};

TEST_P(RightSize, IsThePromptAndTheAnswerRoundedUp) {
  const SizeCase& one = GetParam();
  const Size size = right_size(
      {.n_prompt = one.n_prompt, .num_predict = one.num_predict, .max_context = one.max_context});
  EXPECT_EQ(size, (Size{one.context, one.n_answer, one.max_context}));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RightSize,
    testing::Values(
        SizeCase{"NC_1", 8192, 10, 100, 100, 1024}, SizeCase{"NC_2", 8192, 924, 100, 100, 1024},
        SizeCase{"NC_3", 8192, 925, 100, 100, 2048}, SizeCase{"NC_4", 8192, 0, 1, 1, 1024},
        SizeCase{"NC_5", 8192, 1000, 1024, 1024, 2048},
        SizeCase{"NC_6", 8192, 6000, 2000, 2000, 8192},
        SizeCase{"NC_7", 8192, 7000, 1192, 1192, 8192},
        SizeCase{"NC_8", 8192, 7000, 1193, 1193, 8192}, SizeCase{"NC_9", 8192, 10, -1, 8182, 8192},
        SizeCase{"NC_10", 8192, 7168, -1, 1024, 8192},
        SizeCase{"NC_11", 8192, 7500, -1, 1024, 8192},
        SizeCase{"NC_12", 8192, 8192, -1, 1024, 8192},
        SizeCase{"NC_13", 8192, 9000, -1, 1024, 8192},
        SizeCase{"NC_14", 8192, 100, 100000, 8192, 8192},
        SizeCase{"NC_15", 2000, 100, 100, 100, 1024}, SizeCase{"NC_16", 2000, 1000, 500, 500, 2000},
        SizeCase{"NC_17", 512, 10, 10, 10, 512}, SizeCase{"NC_18", 131072, 50, -1, 131022, 131072},
        SizeCase{"NC_19", 131072, 50, 256, 256, 1024},
        SizeCase{"NC_20", 131072, 100000, 4096, 4096, 104448},
        SizeCase{"NC_21", 32768, 2500, 512, 512, 3072}, SizeCase{"NC_22", 4096, 4000, 50, 50, 4096},
        SizeCase{"NC_23", 4096, 4096, 1, 1, 4096},
        SizeCase{"NC_26_nothing_to_answer", 8192, 10, 0, 0, 1024},
        SizeCase{"NC_26_a_long_prompt_alone", 8192, 1025, 0, 0, 2048},
        SizeCase{"NC_26_to_the_full", 8192, 10, -2, 8182, 8192},
        SizeCase{"FI_17_one", 1, 1, -1, 1, 1}, SizeCase{"FI_17_two", 2, 1, 5, 2, 2},
        SizeCase{"FI_17_1000", 1000, 10, 10, 10, 1000},
        SizeCase{"FI_17_1025", 1025, 1000, 25, 25, 1025}),
    [](const testing::TestParamInfo<SizeCase>& one) { return std::string(one.param.name); });

TEST(Sizing, NC_24_WithoutALimitTheContextIsTheMaximum) {
  for (const size_t max : {1u, 512u, 1000u, 1024u, 1025u, 4096u, 8192u, 131072u}) {
    for (size_t n_prompt = 0; n_prompt <= max + 2000; n_prompt += 97)
      ASSERT_EQ(context_of(max, n_prompt, kUnlimited), max) << n_prompt;
  }
}

TEST(Sizing, NC_25_DoesNotWrap) {
  constexpr size_t kHuge = std::numeric_limits<size_t>::max();
  constexpr int64_t kMaxPredict = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(context_of(kHuge, kHuge, kMaxPredict), kHuge);
  EXPECT_EQ(context_of(kHuge, kHuge - 5, 3), kHuge);
  EXPECT_EQ(context_of(kHuge, size_t{1} << 63, kMaxPredict), kHuge);
  EXPECT_EQ(context_of(size_t{1} << 63, size_t{1} << 31, int64_t{1} << 31), size_t{1} << 32);
  EXPECT_EQ(context_of(0, 10, 10), 0u);
}

TEST(Sizing, NC_26_RefusesOtherNegatives) {
  for (const int64_t num_predict : {int64_t{-3}, std::numeric_limits<int64_t>::min()}) {
    try {
      context_of(8192, 10, num_predict);
      ADD_FAILURE() << num_predict;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
      EXPECT_NE(std::string(error.what()).find(std::to_string(num_predict)), std::string::npos);
    }
  }
}

TEST(Sizing, NC_27_NumCtxMayOnlyLowerTheMaximum) {
  const auto capped = [](size_t cap, size_t n_prompt, int64_t num_predict) {
    return right_size({n_prompt, num_predict, 8192, cap});
  };
  EXPECT_EQ(capped(2048, 10, -1), (Size{2048, 2038, 2048}));
  EXPECT_EQ(capped(2048, 10, 100), (Size{1024, 100, 2048}));
  EXPECT_EQ(capped(100000, 10, 100), (Size{1024, 100, 8192}));
  EXPECT_EQ(capped(4, 10, -1).context, 256u);
}

TEST(Sizing, EL_1_2_3_4_5_6_7_8_9_ExpectedContextOfAnAnswerWithoutALimit) {
  EXPECT_EQ(expected_context(10, 8192), 2048u);      // EL-1
  EXPECT_EQ(expected_context(1024, 8192), 2048u);    // EL-2
  EXPECT_EQ(expected_context(1025, 8192), 3072u);    // EL-3
  EXPECT_EQ(expected_context(7168, 8192), 8192u);    // EL-4
  EXPECT_EQ(expected_context(7169, 8192), 8192u);    // EL-5
  EXPECT_EQ(expected_context(50, 131072), 2048u);    // EL-6
  EXPECT_EQ(expected_context(3072, 131072), 4096u);  // EL-7
  EXPECT_EQ(expected_context(3073, 131072), 5120u);  // EL-8
  EXPECT_EQ(expected_context(10, 512), 512u);        // EL-9
}

TEST(Sizing, EM_1_EmbeddingsReserveNoAnswer) {
  EXPECT_EQ(embedding_context(12, 8192), 1024u);
  EXPECT_EQ(embedding_context(900, 8192), 1024u);
  EXPECT_EQ(embedding_context(1025, 8192), 2048u);
  EXPECT_EQ(embedding_context(300, 512), 512u);
  EXPECT_EQ(embedding_context(1, 2048), 1024u);
  EXPECT_EQ(embedding_context(8192, 8192), 8192u);
  EXPECT_EQ(embedding_context(8193, 8192), 8192u);
}

TEST(Sizing, P_11_HoldsThePromptAndTheAnswerAndLittleMore) {
  constexpr unsigned kSeed = 11;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    const size_t max = 1 + random() % 40000;
    const size_t n_prompt = random() % (max + max / 2 + 1);
    const auto n_predict = static_cast<int64_t>(1 + random() % (2 * max));
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", case " << i << ": maximum " << max
                                    << ", prompt " << n_prompt << ", answer " << n_predict);
    const Size size = right_size({n_prompt, n_predict, max, 0});
    const size_t wanted = n_prompt + size.n_answer;
    ASSERT_LE(size.context, max);
    ASSERT_GE(size.context, std::min(max, wanted));
    if (size.context != max) {
      ASSERT_EQ(size.context % kSizeStep, 0u);
      ASSERT_LT(size.context - wanted, kSizeStep);
    }
    ASSERT_EQ(size, right_size({n_prompt, n_predict, max, 0}));
    ASSERT_LE(size.context, context_of(max, n_prompt + 1, n_predict));
    ASSERT_LE(size.context, context_of(max, n_prompt, n_predict + 1));
  }
}

}  // namespace
}  // namespace billow::context

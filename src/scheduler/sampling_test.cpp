#include "scheduler/sampling.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace billow::scheduler {
namespace {

TEST(Sampling, ParsesKnownFieldsAndTruncatesFractions) {
  const Sampling sampling = sampling_of(Json::parse(
      R"({"temperature":0.25,"top_k":5.9,"seed":-3,"mirostat":"x","top_p":null,"num_ctx":7})"));
  EXPECT_EQ(sampling, (Sampling{.temperature = 0.25, .top_k = 5, .seed = -3}));
}

TEST(Sampling, ClampsIntegersToTheirType) {
  EXPECT_EQ(whole_number(Json(1e30)), int64_t{9'200'000'000'000'000'000});
  EXPECT_EQ(whole_number(Json(UINT64_MAX)), INT64_MAX);
  EXPECT_EQ(whole_number(Json(-2.5)), -2);
}

TEST(Sampling, WritesSetFieldsAndBannedTokenAsNull) {
  const Sampling sampling{.top_p = 0.5, .mirostat = 2, .logit_bias = {{7, 1.5f}, {8, {}}}};
  EXPECT_EQ(to_json(sampling),
            Json::parse(R"({"top_p":0.5,"mirostat":2,"logit_bias":[[7,1.5],[8,null]]})"));
  EXPECT_EQ(to_json({}), Json::object());
}

TEST(Sampling, OverlaysFieldByField) {
  const Sampling base{.temperature = 0.5, .top_k = 10, .logit_bias = {{1, 1.0f}}};
  EXPECT_EQ(overlaid(base, {.temperature = 0.0, .seed = 4}),
            (Sampling{.temperature = 0.0, .top_k = 10, .seed = 4, .logit_bias = {{1, 1.0f}}}));
  EXPECT_EQ(overlaid(base, {.logit_bias = {{2, {}}}}).logit_bias,
            (std::vector<LogitBias>{{2, {}}}));
}

}  // namespace
}  // namespace billow::scheduler

#include "scheduler/model_facts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

#include "base/error.h"

namespace billow::scheduler {
namespace {

constexpr char kGood[] =
    R"({"architecture":"gemma3","max_context":32768,"embedding_length":640,"pooling":"mean",
        "memory":{"weight_bytes":1000,"scratch":[{"positions":512,"bytes":10},
        {"positions":32768,"bytes":20}],"kv_groups":[{"block_bytes":256,"window":0},
        {"block_bytes":512,"window":512}],"block_positions":64,"batch":512}})";

TEST(ModelFacts, AreParsedFromTheDescription) {
  const ModelFacts facts = parse_model_facts(kGood);
  EXPECT_EQ(facts.architecture, "gemma3");
  EXPECT_EQ(facts.max_context, 32768u);
  EXPECT_EQ(facts.embedding_length, 640u);
  EXPECT_FALSE(facts.is_embedding);
  EXPECT_EQ(facts.pooling, "mean");
  const context::MemoryNeed need = {.weight_bytes = 1000,
                                    .scratch = {{512, 10}, {32768, 20}},
                                    .kv_groups = {{256, 0}, {512, 512}},
                                    .block_positions = 64,
                                    .n_batch = 512};
  EXPECT_EQ(facts.memory, need);
}

TEST(ModelFacts, PassOnErrorsOfTheDescription) {
  try {
    parse_model_facts(R"({"error":"architecture 'mamba' is not known","code":"unsupported"})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "architecture 'mamba' is not known");
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
  for (const char* text :
       {"", "[]", "{}", R"({"architecture":1})", R"({"architecture":"x","max_context":-1})",
        R"({"architecture":"x","max_context":1,"memory":3})",
        R"({"architecture":"x","max_context":1,"memory":{"weight_bytes":1,"block_positions":64,
            "batch":1,"scratch":[],"kv_groups":[3]}})"})
    EXPECT_THROW(parse_model_facts(text), Error) << text;
}

TEST(ModelFacts, ComputeTheCostOfARequest) {
  const ModelFacts facts = parse_model_facts(kGood);
  const ModelCost small = cost_of(facts, 512);
  EXPECT_EQ(small.weight_bytes, 1000u);
  EXPECT_EQ(small.scratch_bytes, 10u);
  EXPECT_EQ(small.kv_bytes, facts.memory.kv_bytes(512));
  const ModelCost large = cost_of(facts, 8192, true);
  EXPECT_EQ(large.scratch_bytes, 20u);
  EXPECT_EQ(large.kv_bytes, facts.memory.kv_bytes(8192, true));
  EXPECT_EQ(cost_of(facts, 0).kv_bytes, 0u);
}

TEST(ModelFacts, IncludeTheRuleForPictures) {
  const std::string head =
      R"({"architecture":"a","max_context":8,"memory":{"weight_bytes":1,"block_positions":1,"batch":1,)"
      R"("scratch":[],"kv_groups":[]})";
  EXPECT_FALSE(parse_model_facts(head + "}").pictures);
  const std::string sizes = R"("cell":14,"edge":56,"min_rows":1,"max_rows":2,"max_tiles":3})";
  const auto rule =
      parse_model_facts(head + R"(,"pictures":{"kind":"scaled",)" + sizes + "}").pictures;
  ASSERT_TRUE(rule);
  EXPECT_EQ(*rule, (context::PictureRule{.kind = context::PictureRule::Kind::kScaled,
                                         .cell = 14,
                                         .edge = 56,
                                         .min_rows = 1,
                                         .max_rows = 2,
                                         .max_tiles = 3}));
  for (const char* broken : {R"(,"pictures":7})", R"(,"pictures":{"kind":"scaled"}})"})
    EXPECT_THROW(parse_model_facts(head + broken), Error) << broken;
  EXPECT_THROW(parse_model_facts(head + R"(,"pictures":{"kind":"round",)" + sizes + "}"), Error);
}

TEST(DescribeWith, RunsTheProgramForAPath) {
  // The output is not a description, so that parsing fails.
  EXPECT_THROW(describe_with("/bin/echo")("model.gguf", EngineChoice{}, {}), Error);
}

}  // namespace
}  // namespace billow::scheduler

#include "api/local_embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "api/sample_served.h"
#include "http/status.h"
#include "scheduler/fake_runner.h"

namespace billow::api {
namespace {

class LocalEmbedderTest : public testing::Test {
 protected:
  void SetUp() override { models.add({.go = kLines}); }
  EmbedReply run(const EmbedRequest& request) {
    LocalEmbedder embedder(models.catalog, scheduler, metrics);
    metrics::Trace trace("id", "/api/embed", "node");
    return embedder.embed(request, {}, trace);
  }
  std::string refusal(const EmbedRequest& request) {
    try {
      run(request);
      return "none";
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
  }
  SampleStore models;
  scheduler::FakeRunners runners;
  metrics::Metrics metrics{"0", "scalar"};
  scheduler::Scheduler scheduler{{.budget_bytes = uint64_t{1} << 30}, runners.starter()};
};

TEST_F(LocalEmbedderTest, GivesAVectorOfLengthOneForEachInput) {
  const EmbedReply reply = run({.model = "m", .inputs = {"ab", "xyz"}});
  ASSERT_EQ(reply.vectors.size(), 2u);
  for (const std::vector<float>& vector : reply.vectors) {
    double sum = 0.0;
    for (const float value : vector) sum += static_cast<double>(value) * value;
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
  EXPECT_EQ(reply.n_prompt, 5u);
  EXPECT_EQ(runners.embeddings().at(0).job.inputs.at(1).tokens.size(), 3u);
  const EmbedReply raw = run({.model = "m", .inputs = {"ab"}, .normalise = false});
  EXPECT_EQ(raw.vectors[0], (std::vector<float>{2.0f, 'a', 0.0f, 0.0f}));
}

TEST_F(LocalEmbedderTest, WithoutInputsTheModelIsLoaded) {
  EXPECT_TRUE(run({.model = "m"}).vectors.empty());
  EXPECT_EQ(runners.launches().size(), 1u);
  EXPECT_TRUE(runners.embeddings().empty());
}

TEST_F(LocalEmbedderTest, LongInputsAreCutOrRefused) {
  const std::string text(3000, 'x');
  EXPECT_EQ(run({.model = "m", .inputs = {text}}).n_prompt, 2048u);
  EXPECT_EQ(refusal({.model = "m", .inputs = {"a", text}, .truncate = false}),
            "400 the input length exceeds the context length (3000 of 2048 tokens)");
  EXPECT_EQ(run({.model = "m", .inputs = {"abcdef"}, .options_json = R"({"num_ctx":3})"}).n_prompt,
            3u);
}

TEST_F(LocalEmbedderTest, UnknownModelsAreNamedAsOllamaDoes) {
  EXPECT_EQ(refusal({.model = "nope", .inputs = {"a"}}),
            "404 model \"nope\" not found, try pulling it first");
  EXPECT_EQ(refusal({.model = "", .inputs = {"a"}}), "404 model '' not found");
}

TEST(FinishVector, CutsThenNormalises) {
  std::vector<float> vector = {3.0f, 4.0f, 12.0f};
  finish_vector(vector, 2, true);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.8f}));
  vector = {0.0f, 0.0f};
  finish_vector(vector, 5, true);
  EXPECT_EQ(vector, (std::vector<float>{0.0f, 0.0f}));
  vector = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(finish_vector(vector, 1, true), http::StatusError);
}

TEST(EmbedTokens, WhatIsCutKeepsItsSpecialTokens) {
  gguf::Writer writer = tokenizer::sample_bpe();
  writer.set_bool("tokenizer.ggml.add_bos_token", true);
  writer.set_bool("tokenizer.ggml.add_eos_token", true);
  const store::TestFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  const std::vector<std::byte> bytes = writer.to_bytes();
  store::write_test_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto tokenizer = tokenizer::Tokenizer::load(gguf::File::open(path));
  EXPECT_TRUE(embed_tokens(tokenizer, "abcdef", 4, true).is_cut);
  EXPECT_FALSE(embed_tokens(tokenizer, "ab", 4, true).is_cut) << "it just fits";
  const std::vector<int32_t> cut = embed_tokens(tokenizer, "abcdef", 4, true).tokens;
  ASSERT_EQ(cut.size(), 4u);
  EXPECT_EQ(cut.front(), tokenizer.bos());
  EXPECT_EQ(cut.back(), tokenizer.eos());
  EXPECT_EQ(tokenizer.decode(std::span(cut).subspan(1, 2)), "ab");
  EXPECT_EQ(embed_tokens(tokenizer, "ab", 4, false).tokens.size(), 4u);
  for (const size_t limit : {size_t{0}, size_t{1}, size_t{2}})
    EXPECT_THROW(embed_tokens(tokenizer, "abcdef", limit, true), http::StatusError);
}

}  // namespace
}  // namespace billow::api

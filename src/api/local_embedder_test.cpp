#include "api/local_embedder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "api/request_options.h"
#include "api/sample_served.h"
#include "base/json.h"
#include "http/status.h"
#include "scheduler/fake_runner.h"

namespace billow::api {
namespace {

class LocalEmbedderTest : public testing::Test {
 protected:
  void SetUp() override { models.add({.go = kLines}); }
  EmbedReply run(const EmbedRequest& request) { return run_with({}, request); }
  EmbedReply run_with(const EmbedPolicy& policy, const EmbedRequest& request) {
    LocalEmbedder embedder(models.catalog, scheduler, metrics, contexts, policy);
    metrics::Trace trace("id", "/api/embed", "node");
    EmbedReply reply = embedder.embed(request, {}, trace);
    last_trace = trace.to_json();
    return reply;
  }
  size_t latest() { return contexts.of(models.catalog.find("m")->key); }
  Json sized() const {
    for (const Json& event : last_trace.at("spans"))
      if (event.at("name") == "sized") return event.at("attributes");
    return nullptr;
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
  LatestContexts contexts;
  Json last_trace;
  scheduler::FakeRunners runners;
  metrics::Metrics metrics{"0", "scalar"};
  scheduler::Scheduler scheduler{{.budget_bytes = uint64_t{1} << 30}, runners.starter()};
};

TEST_F(LocalEmbedderTest, SV_7_ReturnsAUnitVectorForEachInput) {
  const EmbedReply reply = run({.model = "m", .inputs = {"ab", "xyz"}});
  ASSERT_EQ(reply.results.size(), 2u);
  for (const EmbedResult& result : reply.results) {
    double sum = 0.0;
    for (const float value : result.values) sum += static_cast<double>(value) * value;
    EXPECT_NEAR(sum, 1.0, 1e-6);
  }
  EXPECT_EQ(reply.n_prompt, 5u);
  EXPECT_EQ(runners.embeddings().at(0).job.inputs.at(1).tokens.size(), 3u);
  const EmbedReply raw = run({.model = "m", .inputs = {"ab"}, .normalise = false});
  EXPECT_EQ(raw.results[0].values, (std::vector<float>{2.0f, 'a', 0.0f, 0.0f}));
}

TEST_F(LocalEmbedderTest, WithoutInputsTheModelIsLoaded) {
  EXPECT_TRUE(run({.model = "m"}).results.empty());
  EXPECT_EQ(runners.launches().size(), 1u);
  EXPECT_TRUE(runners.embeddings().empty());
}

TEST_F(LocalEmbedderTest, SV_3_TruncatesOrRefusesLongInputs) {
  const std::string text(3000, 'x');
  const EmbedReply cut = run({.model = "m", .inputs = {text, "a", text}});
  EXPECT_EQ(cut.n_prompt, 2 * 2048u + 1);
  EXPECT_EQ(cut.n_cut, 2u);
  EXPECT_EQ(refusal({.model = "m", .inputs = {"a", text}, .truncation = Truncation::kNone}),
            "400 the input length exceeds the context length (3000 of 2048 tokens)");
}

TEST_F(LocalEmbedderTest, NC27_NumCtxTruncatesInputsOnlyAsACap) {
  const EmbedPolicy cap{.num_ctx = NumCtxPolicy::kCap};
  const auto asking = [](const char* options) {
    return EmbedRequest{.model = "m", .inputs = {"abcdef"}, .options = options_of_text(options)};
  };
  for (const char* options : {R"({"num_ctx":3})", R"({"num_ctx":0})", R"({"num_ctx":-1})"}) {
    EXPECT_EQ(run(asking(options)).n_prompt, 6u) << options;
    EXPECT_EQ(run(asking(options)).context, 1024u) << options;
  }
  EXPECT_EQ(run_with(cap, asking(R"({"num_ctx":3})")).n_prompt, 3u);
  EXPECT_EQ(run_with(cap, asking(R"({"num_ctx":3})")).context, 3u);
  EXPECT_EQ(run_with(cap, asking(R"({"num_ctx":9})")).n_prompt, 6u);
  EXPECT_EQ(run_with(cap, asking(R"({"num_ctx":99999})")).context, 1024u);
  EXPECT_EQ(run_with(cap, asking("{}")).n_prompt, 6u);
  EXPECT_EQ(run_with({.max_context = 4}, asking("{}")).n_prompt, 4u);
  for (const char* none : {R"({"num_ctx":0})", R"({"num_ctx":-1})"}) {
    try {
      run_with(cap, asking(none));
      ADD_FAILURE() << "no token may be kept: " << none;
    } catch (const http::StatusError& error) {
      EXPECT_EQ(error.status(), 400);
      EXPECT_STREQ(error.what(), "input after truncation exceeds maximum context length");
    }
  }
  models.add({.name = "zero", .params_json = R"({"num_ctx":0})"});
  EXPECT_EQ(run_with(cap, {.model = "zero", .inputs = {"abcdef"}}).n_prompt, 6u);
}

TEST_F(LocalEmbedderTest, EM_1_EachInputHasItsOwnContextAndTheRequestTheLargest) {
  models.add({.max_context = 8192});
  const auto text = [](size_t n) { return std::string(n, 'x'); };
  EXPECT_EQ(latest(), 0u);
  const EmbedReply reply = run({.model = "m", .inputs = {text(12), text(900), text(1025)}});
  EXPECT_EQ(reply.context, 2048u);
  EXPECT_EQ(reply.context_reason, "1025 tokens of the longest of 3 inputs, of 8192");
  EXPECT_EQ(sized()["context"], 2048);
  EXPECT_EQ(sized()["contexts"], "1024 x 2, 2048");
  EXPECT_EQ(latest(), 2048u);
  EXPECT_EQ(run({.model = "m", .inputs = {text(9000)}}).context, 8192u);
  EXPECT_EQ(sized()["reason"], "8192 tokens of the input, of 8192");
  EXPECT_EQ(run({.model = "m"}).context, 0u) << "a load has no input";
  EXPECT_EQ(latest(), 8192u);
  EmbedRequest many{.model = "m"};
  for (size_t i = 0; i < 100; ++i) many.inputs.emplace_back(text(i % 2 == 0 ? 1 : 2000));
  EXPECT_EQ(run(many).context, 2048u);
  EXPECT_LT(sized()["contexts"].get<std::string>().size(), 300u) << "a trace is small";
}

TEST_F(LocalEmbedderTest, RefusesTextsThatHaveCrashedARunner) {
  const std::string key = models.catalog.find("m")->key;
  const auto is_poison = [](const scheduler::EmbedInput& input) {
    return input.tokens.size() == 6;
  };
  runners.change(key, [&](scheduler::FakeScript& script) {
    script.embed = [&](const scheduler::EmbedJob& job) {
      if (std::ranges::any_of(job.inputs, is_poison)) {
        runners.kill(key, "signal 11 (Segmentation fault)");
        throw scheduler::RunnerGone("the connection is lost");
      }
      scheduler::EmbedOutputs vectors(job.inputs.size());
      for (scheduler::EmbedOutput& vector : vectors) vector.values = {1.0f};
      return vectors;
    };
  });
  const EmbedRequest poison{.model = "m", .inputs = {"good", "poison"}};
  const EmbedRequest sound{.model = "m", .inputs = {"good", "antidote"}};
  EXPECT_EQ(refusal(sound), "none");
  EXPECT_EQ(refusal(poison), "500 " + std::string(scheduler::kCrashText) +
                                 ": signal 11 (Segmentation fault); " +
                                 std::string(scheduler::kCulpritText));
  const size_t n_launches = runners.launches().size();
  EXPECT_EQ(refusal(poison), "500 " + std::string(scheduler::kRefusedText));
  EXPECT_EQ(refusal(sound), "none");
  EXPECT_LE(runners.launches().size(), n_launches + 1) << "the texts were not tried again";
}

TEST_F(LocalEmbedderTest, SV_9_ReportsUnknownModelsLikeOllama) {
  EXPECT_EQ(refusal({.model = "nope", .inputs = {"a"}}),
            "404 model \"nope\" not found, try pulling it first");
  EXPECT_EQ(refusal({.model = "", .inputs = {"a"}}), "404 model '' not found");
}

TEST(FinishVector, TruncatesThenNormalises) {
  std::vector<float> vector = {3.0f, 4.0f, 12.0f};
  finish_vector(vector, 2, true);
  EXPECT_EQ(vector, (std::vector<float>{0.6f, 0.8f}));
  vector = {0.0f, 0.0f};
  finish_vector(vector, 5, true);
  EXPECT_EQ(vector, (std::vector<float>{0.0f, 0.0f}));
  vector = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(finish_vector(vector, 1, true), http::StatusError);
}

TEST(FinishVectors, NormalisesTheVectorOfEachToken) {
  EmbedResult result{.values = {3.0f, 4.0f, 9.0f, 0.0f, 2.0f, 9.0f}, .n_tokens = 2};
  finish_vectors(result, 2, true);
  EXPECT_EQ(result.values, (std::vector<float>{0.6f, 0.8f, 0.0f, 1.0f}));
  result = {.values = {1.0f, 2.0f, 3.0f}, .n_tokens = 2};
  EXPECT_THROW(finish_vectors(result, 0, true), http::StatusError);
}

TEST_F(LocalEmbedderTest, SV_10_IdsAndTextOfTheSameTokensAreTheSameJob) {
  run({.model = "m", .inputs = {"abc"}});
  run({.model = "m", .inputs = {std::vector<int32_t>{'a', 'b', 'c'}}});
  const auto jobs = runners.embeddings();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(models.catalog.find("m")->weights->tokenizer.decode(jobs[0].job.inputs[0].tokens),
            "abc");
  EXPECT_EQ(jobs[1].job.inputs[0].tokens, (std::vector<int32_t>{'a', 'b', 'c'}));
  EXPECT_EQ(refusal({.model = "m", .inputs = {std::vector<int32_t>{1 << 20}}}),
            "400 token id 1048576 is not in the vocabulary of 272 tokens");
  EXPECT_EQ(refusal({.model = "m", .inputs = {std::vector<int32_t>{}}}),
            "400 the input has no tokens");
  EXPECT_EQ(refusal({.model = "m", .inputs = {""}}), "400 the input has no tokens");
}

TEST_F(LocalEmbedderTest, PassesClientAndPoolingToTheRunner) {
  run({.model = "m", .inputs = {"ab"}, .pooling = "cls", .is_bulk = true, .client = "peer"});
  const scheduler::EmbedJob job = runners.embeddings().at(0).job;
  EXPECT_EQ(job.pooling, "cls");
  EXPECT_EQ(job.client, "peer");
  EXPECT_TRUE(job.is_bulk);
  EXPECT_EQ(refusal({.model = "m", .inputs = {"ab"}, .pooling = "median"}),
            "400 unknown pooling 'median': it can be mean, cls, last, max or none");
}

TEST_F(LocalEmbedderTest, WithoutPoolingThereIsAVectorForEachToken) {
  runners.change(models.catalog.find("m")->key, [](scheduler::FakeScript& script) {
    script.embed = [](const scheduler::EmbedJob& job) {
      return scheduler::EmbedOutputs{
          {.values = std::vector<float>(6 * job.inputs[0].tokens.size(), 1)}};
    };
  });
  const EmbedReply reply =
      run({.model = "m", .inputs = {"abc"}, .pooling = "none", .dimensions = 1});
  EXPECT_EQ(reply.results[0].n_tokens, 3u);
  EXPECT_EQ(reply.results[0].values, (std::vector<float>{1.0f, 1.0f, 1.0f}));
  models.facts.embedding_length = 2;
  models.add({.name = "n", .max_context = 1024});
  EXPECT_EQ(refusal({.model = "n", .inputs = {"abc"}, .pooling = "none"}),
            "500 the runner did not return one vector for each token");
}

TEST_F(LocalEmbedderTest, SV_7_RefusesTooManyDimensionsIfTheyMustFit) {
  EXPECT_EQ(refusal({.model = "m", .inputs = {"a"}, .dimensions = 7, .dimensions_must_fit = true}),
            "400 model 'm:latest' has 6 dimensions, not 7");
  EXPECT_EQ(run({.model = "m", .inputs = {"a"}, .dimensions = 7}).results.size(), 1u);
}

TEST_F(LocalEmbedderTest, SV_2_BadInputOfAPartialRequestFailsAlone) {
  const std::vector<EmbedInput> inputs = {"ab", UnusableInput{"no text"}, std::string(3000, 'x'),
                                          "cd", "e"};
  runners.change(models.catalog.find("m")->key, [](scheduler::FakeScript& script) {
    script.embed = [](const scheduler::EmbedJob& job) {
      EXPECT_EQ(job.inputs.size(), 3u);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      return scheduler::EmbedOutputs{{.values = {2.0f}}, {{}, "no room", 503}, {.values = {nan}}};
    };
  });
  EmbedRequest request{
      .model = "m", .inputs = inputs, .truncation = Truncation::kNone, .partial = true};
  const EmbedReply reply = run(request);
  std::string outcomes;
  for (const EmbedResult& result : reply.results)
    outcomes += std::to_string(result.status) + " " + result.error + "\n";
  EXPECT_EQ(
      outcomes,
      "0 \n400 no text\n400 the input length exceeds the context length (3000 of 2048 tokens)\n"
      "503 no room\n500 embedding contains NaN or Inf values\n");
  EXPECT_EQ(reply.results[0].values, (std::vector<float>{1.0f}));
  EXPECT_EQ(reply.n_prompt, 5u);
  request.partial = false;
  request.inputs = {"ab", "cd", "e"};
  EXPECT_EQ(refusal(request), "503 no room");
  request = {.model = "m", .inputs = {UnusableInput{"no text"}}, .partial = true};
  EXPECT_EQ(run(request).results.at(0).status, 400);
}

TEST_F(LocalEmbedderTest, OnlyRerankersScorePairs) {
  EXPECT_EQ(refusal({.model = "m", .inputs = {"d"}, .query = "q"}),
            "400 model 'm:latest' is not a reranker: its file has no pooling of type rank");
  models.facts.pooling = "rank";
  models.add({.name = "r", .max_context = 1024});
  EXPECT_EQ(refusal({.model = "r", .inputs = {"d"}}),
            "400 model 'r:latest' is a reranker: it scores pairs of texts (/rerank)");
  const EmbedReply reply = run({.model = "r", .inputs = {"dd"}, .query = "q"});
  EXPECT_EQ(reply.results.at(0).values.at(0), 3.0f) << "a score is not normalised";
  EXPECT_EQ(runners.embeddings().at(0).job.inputs.at(0).n_first, 1u);
}

TEST_F(LocalEmbedderTest, FillsThePairIntoTheRerankersTemplate) {
  models.facts.pooling = "rank";
  models.add({.name = "r", .max_context = 16, .rerank = "{query}?{document}!"});
  const EmbedReply reply =
      run({.model = "r", .inputs = {"ddd", std::string(90, 'e')}, .query = "q"});
  const auto inputs = runners.embeddings().at(0).job.inputs;
  const auto& tokenizer = models.catalog.find("r")->weights->tokenizer;
  EXPECT_EQ(tokenizer.decode(inputs.at(0).tokens), "q?ddd!");
  EXPECT_EQ(tokenizer.decode(inputs.at(1).tokens), "q?" + std::string(13, 'e') + "!");
  EXPECT_EQ(inputs.at(0).n_first, 0u);
  EXPECT_EQ(reply.n_cut, 1u);
}

}  // namespace
}  // namespace billow::api

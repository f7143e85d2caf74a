#include "api/openai/embeddings_codec.h"

#include <gtest/gtest.h>

#include <vector>

#include "api/openai/refusal.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

EmbedRequest embed(const std::string& fields) {
  return decode_embeddings(R"({"model":"m",)" + fields + "}").embed;
}

TEST(EmbeddingsRequest, InputsAreTexts) {
  const std::pair<const char*, std::vector<EmbedInput>> kInputs[] = {
      {R"("a")", {"a"}}, {R"("")", {""}}, {R"(["a","","b"])", {"a", "", "b"}}};
  for (const auto& [input, expected] : kInputs) {
    const EmbedRequest request = embed("\"input\":" + std::string(input));
    EXPECT_EQ(request.inputs, expected);
    EXPECT_EQ(request.model, "m");
    EXPECT_EQ(request.truncation, Truncation::kRight);
    EXPECT_TRUE(request.dimensions_must_fit);
    EXPECT_TRUE(request.normalise);
    EXPECT_EQ(request.dimensions, 0u);
    EXPECT_EQ(request.options.num_ctx, std::nullopt);
    EXPECT_EQ(request.keep_alive, std::nullopt);
  }
}

TEST(EmbeddingsRequest, ReadsFields) {
  EXPECT_EQ(embed(R"("input":"a","dimensions":64)").dimensions, 64u);
  EXPECT_EQ(embed(R"("input":"a","dimensions":-64)").dimensions, 0u);
  EXPECT_EQ(embed(R"("input":"a","keep_alive":"1m")").keep_alive, std::chrono::minutes(1));
  EXPECT_EQ(embed(R"("input":"a","options":{"x":1},"num_ctx":3)").options.num_ctx, 3u);
  const std::pair<const char*, bool> kFormats[] = {{"null", false},       {R"("")", false},
                                                   {R"("float")", false}, {R"("FLOAT")", false},
                                                   {R"("base64")", true}, {R"("Base64")", true}};
  for (const auto& [format, base64] : kFormats) {
    const auto request =
        decode_embeddings(R"({"input":"a","encoding_format":)" + std::string(format) + "}");
    EXPECT_EQ(request.base64, base64) << format;
  }
}

TEST(EmbeddingsRequest, RefusesInOllamasWords) {
  const std::pair<const char*, const char*> kRefusals[] = {
      {"", "EOF"},
      {"{}", "invalid input"},
      {R"({"input":null})", "invalid input"},
      {R"({"input":[]})", "invalid input"},
      {R"({"input":5})", "invalid input type"},
      {R"({"input":{}})", "invalid input type"},
      {R"({"input":[1,2.5,3]})", "invalid input type"},
      {R"({"input":[[1,2],[-3]]})", "invalid input type"},
      {R"({"input":[1,"a"]})", "invalid input type"},
      {R"({"input":["a",null]})", "invalid input type"},
      {R"({"input":"a","encoding_format":"Int8"})",
       "Invalid value for 'encoding_format' = Int8. Supported values: ['float', 'base64']."},
      {R"({"input":"a","dimensions":"x"})",
       "json: cannot unmarshal string into Go struct field EmbedRequest.dimensions of type int"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_embeddings, body), text);
}

const EmbedReply kReply{
    .results = {{.values = {0.5f, -1.0f, 1e-7f}}, {.values = {0.1f, 3.0f, 16777216.0f}}},
    .n_prompt = 9};

TEST(EmbeddingsAnswer, HasExactFloats) {
  EXPECT_EQ(embeddings_json(kReply, "m\"", false),
            R"({"object":"list","data":[)"
            R"({"object":"embedding","embedding":[0.5,-1,1e-07],"index":0},)"
            R"({"object":"embedding","embedding":[0.1,3,16777216],"index":1}],)"
            R"("model":"m\"","usage":{"prompt_tokens":9,"total_tokens":9}})"
            "\n");
}

TEST(EmbeddingsAnswer, SV_7_Base64IsOfLittleEndianFloats) {
  // 0.5 is 3F000000, -1 is BF800000, 1e-7 is 33D6BF95.
  EXPECT_EQ(
      embeddings_json({.results = {{.values = {0.5f, -1.0f, 1e-7f}}}, .n_prompt = 1}, "m", true),
      R"({"object":"list","data":[)"
      R"({"object":"embedding","embedding":"AAAAPwAAgL+Vv9Yz","index":0}],)"
      R"("model":"m","usage":{"prompt_tokens":1,"total_tokens":1}})"
      "\n");
}

TEST(EmbeddingsRequest, AcceptsTokenIds) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(embed(R"("input":[1,2,2147483647])").inputs,
            (std::vector<EmbedInput>{Ids{1, 2, 2147483647}}));
  EXPECT_EQ(embed(R"("input":[[1],[2,3],"a"])").inputs,
            (std::vector<EmbedInput>{Ids{1}, Ids{2, 3}, "a"}));
}

TEST(EmbeddingsRequest, ReadsExtensions) {
  const EmbedRequest request = embed(
      R"("input":["a",5],"partial":true,"pooling":"CLS","normalize":false,"truncation_direction":"Left")");
  EXPECT_EQ(request.inputs, (std::vector<EmbedInput>{"a", UnusableInput{"invalid input type"}}));
  EXPECT_EQ(request.pooling, "cls");
  EXPECT_FALSE(request.normalise);
  EXPECT_EQ(request.truncation, Truncation::kLeft);
  EXPECT_EQ(embed(R"("input":"a","truncate":false)").truncation, Truncation::kNone);
  EXPECT_EQ(refusal(decode_embeddings, R"({"input":"a","truncation_direction":"up"})"),
            "truncation_direction must be left or right, not 'up'");
}

TEST(EmbeddingsRequest, FI_13_RefusesTooManyInputs) {
  std::string inputs = "[\"a\"";
  for (int i = 1; i < 1'000'000; ++i) inputs += ",\"a\"";
  EXPECT_THROW(embed("\"input\":" + inputs + "]"), http::StatusError);
  EXPECT_EQ(refusal(decode_embeddings, "{\"input\":" + inputs + "]}"), "413");
}

TEST(EmbeddingsAnswer, KeepsErrorsAndTokenVectorsInOrder) {
  const EmbedReply reply{
      .results = {{.error = "no", .status = 400}, {.values = {1.0f, 2.0f}, .n_tokens = 2}},
      .n_prompt = 2};
  EXPECT_EQ(embeddings_json(reply, "m", false),
            R"({"object":"list","data":[{"index":0,"error":"no","status":400},)"
            R"({"object":"embedding","embedding":[[1],[2]],"index":1}],)"
            R"("model":"m","usage":{"prompt_tokens":2,"total_tokens":2}})"
            "\n");
}

TEST(EmbeddingsAnswer, MayBeEmpty) {
  EXPECT_EQ(embeddings_json({}, "m", false), R"({"object":"list","data":[],"model":"m",)"
                                             R"("usage":{"prompt_tokens":0,"total_tokens":0}})"
                                             "\n");
}

}  // namespace
}  // namespace billow::api::openai

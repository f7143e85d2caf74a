#include "llama/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"

namespace billow::llama {
namespace {

using constraint::Grammar;
using constraint::GrammarKind;

Json body_of(const Stretch& stretch) { return Json::parse(stretch_body(stretch)); }

TEST(StretchBody, HasOptionsOfRequest) {
  const std::vector<int32_t> tokens = {1, 2, 3};
  engine::SamplingOptions sampling;
  sampling.temperature = 0.5f;
  sampling.top_k = -1;
  sampling.mirostat = 2;
  const Json body = body_of({.tokens = tokens, .n_predict = 7, .sampling = &sampling, .seed = 42});
  EXPECT_EQ(body["prompt"], Json({1, 2, 3}));
  EXPECT_EQ(body["n_predict"], 7);
  EXPECT_EQ(body["seed"], 42);
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["top_k"], 0) << "all";
  EXPECT_EQ(body["mirostat"], 2);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["return_tokens"], true);
  EXPECT_FALSE(body.contains("n_probs"));
  EXPECT_FALSE(body.contains("grammar"));
}

TEST(StretchBody, MinusInfinityBansToken) {
  engine::SamplingOptions sampling;
  sampling.logit_bias = {{5, 1.5f}, {6, -std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(body_of({.sampling = &sampling})["logit_bias"], Json::parse("[[5, 1.5], [6, false]]"));
}

TEST(StretchBody, GrammarsHaveLlamaServersFormat) {
  engine::SamplingOptions sampling;
  const Grammar schema{GrammarKind::kJsonSchema, R"({"type":"object"})"};
  const Grammar gbnf{GrammarKind::kGbnf, "root ::= \"a\""};
  const Grammar object{GrammarKind::kJsonObject};
  const auto body = [&](const Grammar& grammar) {
    check_grammar(grammar);
    return body_of({.sampling = &sampling, .grammar = &grammar});
  };
  EXPECT_EQ(body(schema)["json_schema"], Json({{"type", "object"}}));
  EXPECT_EQ(body(gbnf)["grammar"], "root ::= \"a\"");
  EXPECT_NE(body(object)["grammar"].get<std::string>().find("root ::= object"), std::string::npos);
  for (const GrammarKind kind : {GrammarKind::kRegex, GrammarKind::kLark})
    EXPECT_THROW(check_grammar({kind, "x"}), Error);
}

TEST(StretchBody, PutsMarkersAtPlacesOfImages) {
  engine::SamplingOptions sampling;
  const std::vector<WireImage> images = {{2, "AAAA"}, {2, "BBBB"}, {5, "CCCC"}};
  const std::vector<int32_t> tokens = {1, 2};
  const auto prompt = [&](const std::string& text, std::string_view marker) {
    return body_of({.tokens = tokens,
                    .text = WireText{.text = text, .images = images, .marker = marker},
                    .sampling = &sampling})["prompt"];
  };
  EXPECT_EQ(prompt("abcde", "<M>"), Json({{"prompt_string", "ab<M><M>cde<M>"},
                                          {"multimodal_data", {"AAAA", "BBBB", "CCCC"}}}));
  // Breaks markers that a user has written.
  EXPECT_EQ(prompt("ab<M>", "<M>")["prompt_string"], "ab<M><M>< M><M>");
  EXPECT_EQ(prompt("ab\xff<M", "<M>")["prompt_string"], "ab<M><M>\uFFFD<M<M>");
}

TEST(Wire, ParsesMediaMarker) {
  EXPECT_EQ(media_marker_of(R"({"media_marker":"<x>"})"), "<x>");
  for (const char* props : {"", "[]", "{}", R"({"media_marker":7})", R"({"media_marker":""})"})
    EXPECT_EQ(media_marker_of(props), "<__media__>") << props;
}

TEST(Wire, ParsesPromptLength) {
  EXPECT_EQ(parse_event(R"({"prompt_progress":{"total":9,"cache":0,"processed":4}})").n_prompt, 9u);
  EXPECT_EQ(parse_event(R"({"stop":true,"tokens_evaluated":9})").n_prompt, 9u);
  EXPECT_EQ(length_in_error(R"({"error":{"n_prompt_tokens":300,"message":"m"}})"), 300u);
  for (const char* body : {"", "{}", R"({"error":"x"})", R"({"error":{"n_prompt_tokens":-1}})"})
    EXPECT_EQ(length_in_error(body), std::nullopt) << body;
}

TEST(StretchEvent, ParsesTokenWithProbabilities) {
  const StretchEvent event = parse_event(
      R"({"content":" Paris","tokens":[7042],"stop":false,"tokens_predicted":3,
          "completion_probabilities":[{"id":7042,"logprob":-0.25,
          "top_logprobs":[{"id":7042,"logprob":-0.25},{"id":260,"logprob":null}]}]})");
  ASSERT_TRUE(event.token);
  EXPECT_EQ(event.token->token, 7042);
  EXPECT_EQ(event.text, " Paris");
  EXPECT_EQ(event.n_tokens, 3u);
  EXPECT_EQ(event.token->logprob, -0.25f);
  ASSERT_EQ(event.token->top.size(), 2u);
  EXPECT_EQ(event.token->top[1].token, 260);
  EXPECT_TRUE(std::isinf(event.token->top[1].logprob));
  EXPECT_FALSE(event.end);
}

TEST(StretchEvent, ParsesEndAndProgress) {
  const StretchEvent end = parse_event(
      R"({"content":"","tokens":[],"stop":true,"stop_type":"eos","tokens_predicted":4})");
  ASSERT_TRUE(end.end);
  EXPECT_TRUE(end.end->is_end_token);
  EXPECT_FALSE(parse_event(R"({"stop":true,"stop_type":"limit"})").end->is_end_token);
  const StretchEvent progress = parse_event(
      R"({"content":"","tokens":[0],"stop":false,
          "prompt_progress":{"total":9,"cache":2,"processed":8}})");
  EXPECT_EQ(progress.n_evaluated, 8u);
  EXPECT_EQ(progress.n_cached, 2u);
  EXPECT_FALSE(progress.token) << "the event has no token";
}

TEST(StretchEvent, InvalidEventIsError) {
  for (const char* text : {"", "[]", "{}", R"({"tokens":[]})", R"({"tokens":["a"]})",
                           R"({"tokens":[-1]})", R"({"tokens":[99999999999]})"})
    EXPECT_THROW(parse_event(text), Error) << text;
  try {
    parse_event(R"({"error":{"code":500,"message":"out of cells"}})");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "out of cells");
  }
}

TEST(ErrorText, ReturnsLlamaServersMessage) {
  EXPECT_EQ(error_text(R"({"error":{"message":"no"}})"), "no");
  EXPECT_EQ(error_text(R"({"error":"no"})"), "no");
  EXPECT_EQ(error_text("<html>"), "<html>");
  EXPECT_EQ(error_text(std::string(10'000, 'x')).size(), 300u);
}

TEST(Embeddings, AcceptsAnyOrder) {
  const std::vector<std::vector<int32_t>> texts = {{1, 2}, {3}};
  EXPECT_EQ(Json::parse(embedding_body(texts))["content"], Json::parse("[[1,2],[3]]"));
  const auto vectors =
      parse_embeddings(R"([{"index":1,"embedding":[[3,4]]},{"index":0,"embedding":[1,2]}])", 2);
  EXPECT_EQ(vectors, (std::vector<std::vector<float>>{{1, 2}, {3, 4}}));
  for (const char* text : {"{}", "[]", R"([{"index":0}])", R"([{"index":1,"embedding":[1]}])",
                           R"([{"index":0,"embedding":["x"]}])", R"([{"index":0,"embedding":3}])"})
    EXPECT_THROW(parse_embeddings(text, 1), Error) << text;
}

}  // namespace
}  // namespace billow::llama

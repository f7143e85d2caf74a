#include "api/tei/routes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "api/openai/test_call.h"
#include "api/sample_served.h"
#include "api/tei/errors.h"
#include "api/tei/rerank_codec.h"
#include "base/json.h"
#include "http/status.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::api::tei {
namespace {

struct Fixture {
  // Returns "200 BODY", or the status and the text of an error.
  std::string answer(const std::string& path, const std::string& body, http::Headers headers = {},
                     http::Parameters query = {}) {
    http::Request request = openai::request_with(body);
    request.headers = std::move(headers);
    request.query = std::move(query);
    request.peer = "127.0.0.1:5";
    openai::TestCall test{std::move(request)};
    for (const Route& route : routes(embedder, models.catalog, generator, models.store)) {
      if (route.pattern != path) continue;
      try {
        route.handler(test.call);
        head = test.exchange.headers;
        return std::to_string(test.exchange.status) + " " + test.exchange.body();
      } catch (const http::StatusError& error) {
        return std::to_string(error.status()) + " " + error.what();
      }
    }
    return "no route";
  }
  void score(const std::vector<float>& logits) {
    embedder.script = [logits] {
      EmbedReply reply{.n_prompt = 12};
      for (const float logit : logits) reply.results.push_back({.values = {logit}});
      return reply;
    };
  }

  SampleStore models;
  openai::ScriptedEmbedder embedder;
  openai::ScriptedGenerator generator;
  http::Headers head;
};

TEST(TeiRoutes, EmbedReturnsAnArrayOfVectors) {
  Fixture fixture;
  fixture.embedder.script = [] {
    return EmbedReply{.results = {{.values = {0.5f, 1.0f}}, {.error = "no", .status = 400}},
                      .n_cut = 1};
  };
  const std::string answer = fixture.answer(
      "/embed", R"({"inputs":["a",[1,2]],"partial":true})",
      {{"X-Billow-Priority", "Bulk"}, {"X-Billow-Client", "shard-7"}}, {{"model", "m"}});
  EXPECT_EQ(answer, R"(200 [[0.5,1],{"index":1,"error":"no","status":400}])");
  EXPECT_EQ(fixture.head.get("X-Billow-Truncated"), "1");
  const EmbedRequest& asked = fixture.embedder.request;
  EXPECT_EQ(asked.model, "m");
  EXPECT_EQ(asked.inputs, (std::vector<EmbedInput>{"a", std::vector<int32_t>{1, 2}}));
  EXPECT_TRUE(asked.is_bulk);
  EXPECT_EQ(asked.client, "shard-7");
  fixture.answer("/embed", R"({"inputs":"a","model":"m"})");
  EXPECT_EQ(asked.client, "127.0.0.1:5");
  EXPECT_FALSE(asked.is_bulk);
}

TEST(TeiRoutes, EmbedRefusesInvalidRequests) {
  Fixture fixture;
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"({"inputs":[],"model":"m"})", "400 inputs must not be empty"},
      {R"({"model":"m"})", "400 inputs must not be empty"},
      {R"({"inputs":"a"})",
       "400 model is required: a field \"model\", or ?model=NAME after the path"},
      {R"({"inputs":"a","model":"m","dimensions":0})", "400 dimensions must be above 0"},
      {R"({"inputs":"a","model":"m","prompt_name":"q"})",
       "400 prompt_name is not supported; put the prompt before the text"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(fixture.answer("/embed", body), text);
}

TEST(Rerank, AcceptsBothForms) {
  Fixture fixture;
  fixture.score({-1.0f, 2.5f});
  EXPECT_EQ(fixture.answer("/rerank", R"({"model":"m","query":"q","texts":["a","b"],)"
                                      R"("raw_scores":true,"return_text":true})"),
            R"(200 [{"index":1,"score":2.5,"text":"b"},{"index":0,"score":-1,"text":"a"}])");
  EXPECT_EQ(fixture.embedder.request.query, "q");
  EXPECT_EQ(fixture.embedder.request.inputs, (std::vector<EmbedInput>{"a", "b"}));
  EXPECT_EQ(
      fixture.answer("/v1/rerank", R"({"model":"m","query":"q","documents":["a",{"text":"b"}],)"
                                   R"("raw_scores":true,"return_documents":true,"top_n":1})"),
      R"(200 {"model":"m","usage":{"prompt_tokens":12,"total_tokens":12},"results":)"
      R"([{"index":1,"relevance_score":2.5,"document":{"text":"b"}}]})");
}

TEST(Rerank, SV_11_ScoresAreBetweenZeroAndOneUnlessRaw) {
  Fixture fixture;
  fixture.score({0.0f, -200.0f, 200.0f});
  const std::string answer =
      fixture.answer("/rerank", R"({"model":"m","query":"q","texts":["a","b","c"]})");
  const Json list = Json::parse(answer.substr(4));
  EXPECT_EQ(list[0]["score"], 1.0);
  EXPECT_EQ(list[1]["score"], 0.5);
  EXPECT_NEAR(list[2]["score"].get<double>(), 0.0, 1e-30);
  EXPECT_FALSE(list[0].contains("text"));
}

TEST(Rerank, SV_11_TopNAndTies) {
  Fixture fixture;
  fixture.score({1.0f, 3.0f, 1.0f, 3.0f});
  const auto order = [&](const std::string& top_n) {
    const std::string more = top_n.empty() ? "" : ",\"top_n\":" + top_n;
    const std::string answer = fixture.answer(
        "/rerank", R"({"model":"m","query":"q","texts":["a","b","c","d"])" + more + "}");
    std::string places;
    for (const Json& entry : Json::parse(answer.substr(4)))
      places += std::to_string(entry["index"].get<int>());
    return places;
  };
  EXPECT_EQ(order(""), "1302");
  EXPECT_EQ(order("0"), "");
  EXPECT_EQ(order("1"), "1");
  EXPECT_EQ(order("4"), "1302");
  EXPECT_EQ(order("5"), "1302");
}

TEST(Rerank, FailedDocumentsComeLast) {
  Fixture fixture;
  fixture.embedder.script = [] {
    return EmbedReply{.results = {{.error = "no", .status = 400}, {.values = {1.0f}}}};
  };
  EXPECT_EQ(fixture.answer("/rerank", R"({"model":"m","query":"q","texts":[5,"b"],"partial":true,)"
                                      R"("raw_scores":true})"),
            R"(200 [{"index":1,"score":1},{"index":0,"error":"no","status":400}])");
}

TEST(Rerank, NamesMissingFields) {
  Fixture fixture;
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"({"model":"m","texts":["a"]})", "400 query must not be empty"},
      {R"({"model":"m","query":"q"})", "400 give either texts or documents"},
      {R"({"model":"m","query":"q","texts":["a"],"documents":["a"]})",
       "400 give either texts or documents"},
      {R"({"model":"m","query":"q","texts":[]})", "400 texts or documents must not be empty"},
      {R"({"model":"m","query":"q","documents":"a"})", "400 documents must be an array"},
      {R"({"model":"m","query":"q","documents":[{"image":"a"}]})", "400 invalid input type"},
      {R"({"model":"m","query":"q","texts":["a"],"top_n":-1})", "400 top_n must not be negative"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(fixture.answer("/v1/rerank", body), text);
}

TEST(TokenRoutes, TokenizesInTwoForms) {
  Fixture fixture;
  fixture.models.add({});
  EXPECT_EQ(fixture.answer("/tokenize", R"({"model":"m","content":"hello<bos>"})"),
            R"(200 {"tokens":[259,268]})");
  EXPECT_EQ(fixture.answer("/tokenize", R"({"model":"m","content":"hello","with_pieces":true})"),
            R"(200 {"tokens":[{"id":259,"piece":"hello"}]})");
  EXPECT_EQ(fixture.answer("/tokenize", R"({"model":"m","content":"\u00e9","with_pieces":true})"),
            R"(200 {"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
  EXPECT_EQ(fixture.answer("/tokenize", R"({"inputs":["a","hello"]})", {}, {{"model", "m"}}),
            R"(200 [[{"id":97,"text":"a","special":false,"start":null,"stop":null}],)"
            R"([{"id":259,"text":"hello","special":false,"start":null,"stop":null}]])");
  EXPECT_EQ(fixture.answer("/tokenize", R"({"model":"m"})"), "400 give inputs or content");
  EXPECT_EQ(fixture.answer("/tokenize", R"({"model":"no","content":"a"})"),
            "404 model 'no' not found");
}

TEST(TokenRoutes, Detokenizes) {
  Fixture fixture;
  fixture.models.add({});
  EXPECT_EQ(fixture.answer("/detokenize", R"({"model":"m","tokens":[259,97]})"),
            R"(200 {"content":"helloa","prompt":"helloa"})");
  EXPECT_EQ(fixture.answer("/decode", R"({"model":"m","ids":[[268,259],[97]]})"),
            R"(200 ["hello","a"])");
  EXPECT_EQ(
      fixture.answer("/decode", R"({"model":"m","ids":[268,97],"skip_special_tokens":false})"),
      R"(200 ["\u003cbos\u003ea"])");
  EXPECT_EQ(fixture.answer("/detokenize", R"({"model":"m","tokens":[5000]})"),
            "400 token id 5000 is not in the vocabulary of 272 tokens");
  EXPECT_EQ(fixture.answer("/detokenize", R"({"model":"m"})"), "400 give tokens or ids");
}

TEST(TeiErrors, HaveTheFormOfTei) {
  EXPECT_EQ(error_response(400, "a \"b\"").body,
            R"({"error":"a \"b\"","error_type":"Validation"})");
  EXPECT_EQ(error_response(503, "x").body, R"({"error":"x","error_type":"Overloaded"})");
  EXPECT_EQ(error_response(500, "x").body, R"({"error":"x","error_type":"Backend"})");
  EXPECT_TRUE(is_route("/rerank"));
  EXPECT_FALSE(is_route("/v1/rerank"));
}

TEST(TokenRoutes, TheOnlyModelNeedsNoName) {
  Fixture fixture;
  fixture.models.add({.name = "m", .go = kLines});
  EXPECT_TRUE(fixture.answer("/tokenize", R"({"prompt":"helloa"})").starts_with("200 "));
  EXPECT_TRUE(fixture.answer("/detokenize", R"({"tokens":[259,97]})").starts_with("200 "));
  fixture.models.add({.name = "n", .go = kLines});
  EXPECT_EQ(fixture.answer("/tokenize", R"({"prompt":"helloa"})"),
            "400 model is required: a field \"model\", or ?model=NAME after the path");
}

TEST(TokenRoutes, TokenizesLikeVllm) {
  Fixture fixture;
  fixture.models.add({.go = kLines, .max_context = 2048, .add_bos = true});
  const std::string bos =
      std::to_string(fixture.models.catalog.find("m")->weights->tokenizer.bos());
  EXPECT_EQ(
      fixture.answer("/tokenize", R"({"model":"m","prompt":"helloa"})"),
      R"(200 {"count":3,"max_model_len":2048,"tokens":[)" + bos + R"(,259,97],"token_strs":null})");
  EXPECT_EQ(
      fixture.answer("/tokenize", R"({"model":"m","prompt":"helloa","add_special_tokens":false,)"
                                  R"("return_token_strs":true})"),
      R"(200 {"count":2,"max_model_len":2048,"tokens":[259,97],"token_strs":["hello","a"]})");
  fixture.generator.script = [](Sink& sink) { sink.rendered("helloa", 0); };
  EXPECT_EQ(
      fixture.answer("/tokenize", R"({"model":"m","messages":[{"role":"user","content":"hi"}]})"),
      R"(200 {"count":2,"max_model_len":2048,"tokens":[259,97],"token_strs":null})");
  EXPECT_TRUE(fixture.generator.request.render_only);
  EXPECT_EQ(fixture.generator.request.messages.at(0).text(), "hi");
}

}  // namespace
}  // namespace billow::api::tei

#include "api/ollama/generation.h"

#include <gtest/gtest.h>

#include <functional>

#include "api/local_embedder.h"
#include "api/local_generator.h"
#include "api/ollama/embedding.h"
#include "api/ollama/errors.h"
#include "api/sample_served.h"
#include "api/test_server.h"
#include "base/json.h"
#include "http/lines.h"
#include "scheduler/fake_runner.h"

namespace billow::api::ollama {
namespace {

using http::Response;

TEST(DeltaLine, EqualsTheJsonForAllParts) {
  for (const GenerationKind kind : {GenerationKind::kPrompt, GenerationKind::kChat}) {
    for (const char* text : {"", "plain", "a\"\\\n<b>&\u00e9\u2028"}) {
      for (const char* thinking : {"", "so\t<so>"}) {
        WholeAnswer part{.text = text, .thinking = thinking};
        for (const bool has_call : {false, true}) {
          if (has_call) part.calls = {{"call_1", "f", R"({"a":1})"}};
          const Json json = delta_json(kind, "m\"", "2026-01-01T00:00:00Z", part, 2);
          EXPECT_EQ(delta_line(kind, "m\"", "2026-01-01T00:00:00Z", part, 2), to_text(json) + "\n");
        }
      }
    }
  }
}

class Generation : public testing::Test {
 protected:
  void SetUp() override { models.add({.go = kLines}); }

  void change(const std::function<void(scheduler::FakeScript&)>& how) {
    runners.change(models.catalog.find("m")->key, how);
  }
  std::string answer_of(const char* path, const std::string& body) {
    return answer_text(server.post(path, body));
  }
  std::vector<Json> lines(const Response& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/x-ndjson");
    std::vector<Json> all;
    http::LineSplitter splitter(1 << 20);
    const auto add = [&](std::string_view line) { all.push_back(Json::parse(line)); };
    splitter.feed(response.body, add);
    splitter.finish(add);
    return all;
  }

  SampleStore models;
  scheduler::FakeRunners runners;
  metrics::Metrics metrics{"0", "scalar"};
  scheduler::Scheduler scheduler{{.budget_bytes = uint64_t{1} << 30}, runners.starter()};
  LatestContexts contexts;
  Slots slots{4};
  PictureAddresses addresses;
  LocalGenerator generator{models.catalog, scheduler, metrics, contexts, slots, addresses, {}};
  LocalEmbedder embedder{models.catalog, scheduler, metrics, contexts, {}};
  TestServer server{routes(), shape_error};

 private:
  std::vector<Route> routes() {
    std::vector<Route> all = generation_routes(generator);
    for (Route& route : embedding_routes(embedder)) all.push_back(std::move(route));
    return all;
  }
};

TEST_F(Generation, GenerateStreamsByDefault) {
  const std::vector<Json> parts =
      lines(server.post("/api/generate", R"({"model":"m","prompt":"hi"})"));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]["response"], "Hello");
  EXPECT_EQ(parts[0]["done"], false);
  EXPECT_EQ(parts[0].size(), 4u) << parts[0];
  EXPECT_EQ(parts[1]["response"], " there");
  const Json& end = parts[2];
  EXPECT_EQ(end["response"], "");
  EXPECT_EQ(end["done"], true);
  EXPECT_EQ(end["done_reason"], "stop");
  EXPECT_EQ(end["eval_count"], 2);
  EXPECT_GT(end["total_duration"].get<int64_t>(), 0);
  EXPECT_GT(end["load_duration"].get<int64_t>(), 0);
  EXPECT_TRUE(end["context"].is_array());
  EXPECT_EQ(end.begin().key(), "model");
}

TEST_F(Generation, RepeatedTokenIsAStopAsInOllama) {
  for (const auto& [reason, shown] :
       {std::pair("repeats", "stop"), std::pair("repetition", "repetition")}) {
    change([&](scheduler::FakeScript& script) { script.end.done_reason = reason; });
    const Response response =
        server.post("/api/generate", R"({"model":"m","prompt":"hi","stream":false})");
    EXPECT_EQ(Json::parse(response.body)["done_reason"], shown);
  }
}

TEST_F(Generation, WithoutAStreamThereIsOneObject) {
  const Response response =
      server.post("/api/generate", R"({"model":"m","prompt":"hi","stream":false})");
  EXPECT_EQ(response.content_type, "application/json; charset=utf-8");
  const Json json = Json::parse(response.body);
  EXPECT_EQ(json["response"], "Hello there");
  EXPECT_EQ(json["model"], "m");
  EXPECT_NE(response.body.back(), '\n');
}

TEST_F(Generation, ChatReturnsMessages) {
  const std::vector<Json> parts = lines(
      server.post("/api/chat", R"({"model":"m","messages":[{"role":"USER","content":"hi"}]})"));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]["message"], Json::parse(R"({"role":"assistant","content":"Hello"})"));
  EXPECT_EQ(parts[2]["message"], Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_FALSE(parts[2].contains("context"));
  const Json whole = Json::parse(
      server
          .post("/api/chat",
                R"({"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false})")
          .body);
  EXPECT_EQ(whole["message"]["content"], "Hello there");
}

TEST_F(Generation, LoadsAndUnloadsAreOneObjectEvenWhenStreaming) {
  for (const char* keep_alive : {"", R"(,"keep_alive":"5m")"}) {
    const Response response =
        server.post("/api/generate", std::string(R"({"model":"m")") + keep_alive + "}");
    EXPECT_EQ(response.content_type, "application/json; charset=utf-8");
    Json json = Json::parse(response.body);
    json.erase("created_at");
    EXPECT_EQ(json.dump(), R"({"model":"m","response":"","done":true,"done_reason":"load"})");
  }
  Json json =
      Json::parse(server.post("/api/chat", R"({"model":"m","messages":[],"keep_alive":0})").body);
  json.erase("created_at");
  EXPECT_EQ(json.dump(), R"({"model":"m","message":{"role":"assistant","content":""},"done":true,)"
                         R"("done_reason":"unload"})");
}

TEST_F(Generation, ErrorsHaveOllamasStatusAndText) {
  struct Case {
    const char* path;
    const char* body;
    const char* answer;
  };
  const Case kCases[] = {
      {"/api/chat", "", R"(400 {"error":"missing request body"})"},
      {"/api/chat", "{}", R"(400 {"error":"model is required"})"},
      {"/api/generate", "{}", R"(404 {"error":"model '' not found"})"},
      {"/api/generate", "{x",
       R"(400 {"error":"invalid character 'x' looking for beginning of object key string"})"},
      {"/api/generate", R"({"model":"nope","prompt":"x"})",
       R"(404 {"error":"model 'nope' not found"})"},
      {"/api/chat", R"({"model":"nope","messages":[{"role":"user","content":"x"}]})",
       R"(404 {"error":"model 'nope' not found"})"},
      {"/api/generate", R"({"model":"../m","prompt":"x"})",
       R"(400 {"error":"invalid model name"})"},
      {"/api/generate", R"({"model":"m","prompt":1})",
       R"(400 {"error":"json: cannot unmarshal number into Go struct field GenerateRequest.prompt of type string"})"},
      {"/api/chat", R"({"model":"m","messages":[{"role":1}]})",
       R"(400 {"error":"json: cannot unmarshal number into Go struct field ChatRequest.messages.role of type string"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","options":{"num_ctx":"a"}})",
       R"(500 {"error":"option \"num_ctx\" must be of type integer"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","top_logprobs":21})",
       R"(400 {"error":"top_logprobs must be between 0 and 20"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","raw":true,"system":"s"})",
       R"(400 {"error":"raw mode does not support template, system, or context"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","think":true})",
       R"(400 {"error":"\"m\" does not support thinking"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","think":"loud"})",
       R"~(400 {"error":"invalid think value: \"loud\" (must be \"high\", \"medium\", \"low\", \"max\", true, or false)"})~"},
      {"/api/generate", R"({"model":"m","prompt":"x","think":3})",
       R"~(400 {"error":"think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or false)"})~"},
      {"/api/generate", R"({"model":"m","prompt":"x","images":["?"]})",
       R"(400 {"error":"illegal base64 data at input byte 0"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","images":["aGk="]})",
       R"(400 {"error":"registry.ollama.ai/library/m:latest does not support vision"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","suffix":"y"})",
       R"(400 {"error":"registry.ollama.ai/library/m:latest does not support insert"})"},
      {"/api/generate", R"({"model":"m","prompt":"x","keep_alive":"10"})",
       R"(400 {"error":"time: missing unit in duration \"10\""})"},
      {"/api/generate", R"({"model":"nope","prompt":"x","keep_alive":true})",
       R"(400 {"error":"Unsupported type: 'bool'"})"},
      {"/api/embed", R"({"model":"nope","input":"x","keep_alive":"abc"})",
       R"(400 {"error":"time: invalid duration \"abc\""})"},
      {"/api/generate", R"({"model":"m","prompt":"x","format":"xml"})",
       R"(500 {"error":"invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object"})"},
      {"/api/embed", R"({"model":"nope","input":"x"})",
       R"(404 {"error":"model \"nope\" not found, try pulling it first"})"},
      {"/api/embed", R"({"model":"m","input":5})", R"(400 {"error":"invalid input type"})"},
      {"/api/embed", R"({"model":"m","input":["a",5]})", R"(400 {"error":"invalid input type"})"},
      {"/api/embed", R"({"input":"x"})", R"(404 {"error":"model '' not found"})"},
      {"/api/embeddings", R"({"prompt":"x"})", R"(400 {"error":"model is required"})"},
  };
  for (const Case& one : kCases) EXPECT_EQ(answer_of(one.path, one.body), one.answer) << one.body;
}

TEST_F(Generation, FormatBecomesAConstraint) {
  using constraint::GrammarKind;
  for (const auto& [format, kind] : {std::pair{R"("json")", GrammarKind::kJsonObject},
                                     std::pair{R"({"type":"object"})", GrammarKind::kJsonSchema}}) {
    const std::string body =
        R"({"model":"m","prompt":"x","stream":false,"format":)" + std::string(format) + "}";
    EXPECT_EQ(server.post("/api/generate", body).status, 200);
    const auto asked = runners.completions().back().completion.constraint;
    ASSERT_TRUE(asked.has_value());
    EXPECT_EQ(asked->grammar.kind, kind);
  }
  server.post("/api/generate", R"({"model":"m","prompt":"x","format":null})");
  EXPECT_FALSE(runners.completions().back().completion.constraint.has_value());
}

TEST_F(Generation, EarlyErrorsHaveAStatusAndLaterOnesAreALine) {
  change([](scheduler::FakeScript& script) { script.end.error = "no memory left"; });
  const std::vector<Json> parts =
      lines(server.post("/api/generate", R"({"model":"m","prompt":"hi"})"));
  EXPECT_EQ(parts.back(), Json::parse(R"({"error":"no memory left"})"));
  change([](scheduler::FakeScript& script) { script.refusal_status = 400; });
  EXPECT_EQ(answer_of("/api/generate", R"({"model":"m","prompt":"hi"})"),
            R"(400 {"error":"refused"})");
}

TEST_F(Generation, HeadersShowTheContextAndItsReason) {
  const Response response = server.post(
      "/api/generate", R"({"model":"m","prompt":"hi","options":{"num_predict":5,"num_ctx":99}})");
  EXPECT_EQ(response.headers.get("X-Billow-Context"), "1024");
  EXPECT_NE(response.headers.get("X-Billow-Context-Reason").find("5 asked for, of 2048"),
            std::string_view::npos);
}

TEST_F(Generation, ShowsARenderedPrompt) {
  Json json = Json::parse(
      server.post("/api/generate", R"({"model":"m","prompt":"hi","_debug_render_only":true})")
          .body);
  json.erase("created_at");
  EXPECT_EQ(json.dump(), R"({"model":"m","response":"","done":false,)"
                         R"("_debug_info":{"rendered_template":"user: hi\nassistant:"}})");
}

TEST_F(Generation, LogprobsComeWithTheirTokens) {
  change([](scheduler::FakeScript& script) {
    script.whole_pieces = {
        {.text = "a", .logprobs = {{"a", -0.5f, "a", {{"a", -0.5f, "a"}, {"b", -1.5f, "b"}}}}},
        {.logprobs = {{"\xEF\xBF\xBD", -1.0f, "\xC3"}}}};
  });
  const std::vector<Json> parts = lines(server.post(
      "/api/generate", R"({"model":"m","prompt":"hi","logprobs":true,"top_logprobs":2})"));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(
      parts[0]["logprobs"].dump(),
      R"([{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[)"
      R"({"token":"a","logprob":-0.5,"bytes":[97]},{"token":"b","logprob":-1.5,"bytes":[98]}]}])");
  EXPECT_EQ(parts[1]["response"], "");
  EXPECT_EQ(parts[1]["logprobs"][0]["bytes"].dump(), "[195]");
}

TEST_F(Generation, SeparatesThinkingAndToolCallsFromContent) {
  models.add({.jinja = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}"
                       "{# <tool_call></tool_call><think></think> 'tool' #}"});
  change([](scheduler::FakeScript& script) {
    script.pieces = {"<think>hm</think>", "Two: ",
                     R"(<tool_call>{"name":"add","arguments":{"b":1,"a":"<"}}</tool_call>)",
                     R"(<tool_call>{"name":"add","arguments":{}}</tool_call>)"};
  });
  const std::string body = R"({"model":"m","messages":[{"role":"user","content":"q"}],)"
                           R"("tools":[{"type":"function","function":{"name":"add"}}])";
  std::vector<Json> messages;
  for (const Json& part : lines(server.post("/api/chat", body + "}"))) {
    if (part["done"] == true) {
      EXPECT_EQ(part["message"].dump(), R"({"role":"assistant","content":""})");
      EXPECT_EQ(part["done_reason"], "stop");
    } else {
      messages.push_back(part["message"]);
    }
  }
  const auto without_id = [](Json call) {
    const auto id = call["id"].get<std::string>();
    EXPECT_TRUE(id.starts_with("call_") && id.size() == 13) << id;
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", 5), std::string::npos);
    call.erase("id");
    return call.dump();
  };
  constexpr const char* kFirst =
      R"({"function":{"index":0,"name":"add","arguments":{"b":1,"a":"<"}}})";
  constexpr const char* kSecond = R"({"function":{"index":1,"name":"add","arguments":{}}})";
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].dump(), R"({"role":"assistant","content":"","thinking":"hm"})");
  EXPECT_EQ(messages[1].dump(), R"({"role":"assistant","content":"Two:"})");
  EXPECT_EQ(without_id(messages[2]["tool_calls"].at(0)), kFirst);
  EXPECT_EQ(without_id(messages[3]["tool_calls"].at(0)), kSecond);

  const Json whole = Json::parse(server.post("/api/chat", body + R"(,"stream":false})").body);
  EXPECT_EQ(whole["message"]["content"], "Two:");
  EXPECT_EQ(whole["message"]["thinking"], "hm");
  ASSERT_EQ(whole["message"]["tool_calls"].size(), 2u);
  EXPECT_EQ(without_id(whole["message"]["tool_calls"][1]), kSecond);
  change([](scheduler::FakeScript& script) { script.pieces = {"<think>hm</think>", "Two"}; });
  const Json written = Json::parse(
      server.post("/api/generate", R"({"model":"m","prompt":"q","stream":false})").body);
  EXPECT_EQ(written["thinking"], "hm");
  EXPECT_EQ(written["response"], "Two");
}

TEST_F(Generation, EmbedReturnsVectorsAndCounts) {
  const Json json =
      Json::parse(server.post("/api/embed", R"({"model":"m","input":["ab","xyz"]})").body);
  EXPECT_EQ(json["embeddings"].size(), 2u);
  EXPECT_EQ(json["prompt_eval_count"], 5);
  EXPECT_GT(json["total_duration"].get<int64_t>(), 0);
  for (const char* none : {"null", "\"\"", "[]"}) {
    const Response empty =
        server.post("/api/embed", std::string(R"({"model":"m","input":)") + none + "}");
    EXPECT_EQ(Json::parse(empty.body)["embeddings"], Json::array()) << none;
  }
  EXPECT_EQ(answer_of("/api/embeddings", R"({"model":"m","prompt":"ab"})"),
            R"(200 {"embedding":[2,97,0,0]})");
  EXPECT_EQ(answer_of("/api/embeddings", R"({"model":"m","prompt":""})"),
            R"(200 {"embedding":[]})");
}

TEST(Decode, ReadsEveryFieldOfAChat) {
  const GenerationRequest request = decode_chat(Fields::parse(
      R"({"model":"m","messages":[{"role":"assistant","content":"c","thinking":"t","tool_calls":[
          {"id":"1","function":{"index":0,"name":"f","arguments":{"b":1,"a":2}}}]},
          {"role":"tool","content":"r","tool_name":"f","tool_call_id":"1"}],
          "tools":[{"type":"function","function":{"name":"f"}}],"keep_alive":"5m","think":"high",
          "truncate":false,"shift":true,"options":{"top_k":1},"format":"json","live_events":true})",
      "ChatRequest"));
  EXPECT_EQ(request.messages.at(0).thinking(), "t");
  ASSERT_EQ(request.messages.at(0).tool_calls().size(), 1u);
  EXPECT_EQ(request.messages.at(0).tool_calls()[0]->arguments.dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(request.messages.at(1).tool_name, "f");
  EXPECT_EQ(request.keep_alive, std::chrono::minutes(5));
  EXPECT_EQ(request.think.level, "high");
  EXPECT_FALSE(request.truncate);
  EXPECT_EQ(request.shift, true);
  EXPECT_EQ(request.options.sampling, (scheduler::Sampling{.top_k = 1}));
  EXPECT_EQ(request.grammar->kind, constraint::GrammarKind::kJsonObject);
  EXPECT_TRUE(request.live_events);
}

}  // namespace
}  // namespace billow::api::ollama

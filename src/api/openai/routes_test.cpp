#include "api/openai/routes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "api/openai/test_call.h"
#include "base/error.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "http/status.h"
#include "scheduler/runner.h"
#include "store/sample_model.h"

namespace billow::api::openai {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kHello = R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})";
constexpr const char* kHelloStream =
    R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true})";

struct Fixture {
  void call(TestCall& test, const std::string& pattern) {
    for (const Route& route : routes(generator, embedder, store)) {
      if (route.pattern == pattern) return route.handler(test.call);
    }
    FAIL() << "no route " << pattern;
  }
  std::string answer(const std::string& pattern, const std::string& body) {
    TestCall test{std::string(body)};
    call(test, pattern);
    EXPECT_TRUE(test.exchange.is_finished);
    return test.exchange.body();
  }
  Json show(const std::string& id) {
    http::Request request;
    request.parameters["model"] = id;
    TestCall test(request);
    call(test, "/v1/models/:model");
    return Json::parse(test.exchange.body());
  }
  std::string failure_of_show(const std::string& id) {
    try {
      show(id);
    } catch (const http::StatusError& error) {
      return std::to_string(error.status()) + " " + error.what();
    }
    return "";
  }

  TestFolder folder;
  store::Store store{folder.path()};
  ScriptedGenerator generator;
  ScriptedEmbedder embedder;
};

void say_hello(Sink& sink) {
  sink.found("m:latest");
  sink.delta(text_delta("Hello"));
  sink.end({.done_reason = "stop", .context = {}, .n_prompt = 3, .n_generated = 1});
}

TEST(Routes, ChatsAndCompletes) {
  Fixture fixture;
  fixture.generator.script = say_hello;
  const Json chat = Json::parse(fixture.answer(kChat, kHello));
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content"), "Hello");
  EXPECT_TRUE(chat.at("id").get<std::string>().starts_with("chatcmpl-"));
  EXPECT_GT(chat.at("created").get<int64_t>(), 1'700'000'000);
  EXPECT_EQ(fixture.generator.request.messages.at(0).text(), "Hi");

  const Json text = Json::parse(fixture.answer("/v1/completions", R"({"model":"m","prompt":"p"})"));
  EXPECT_EQ(text.at("choices").at(0).at("text"), "Hello");
  EXPECT_TRUE(text.at("id").get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(fixture.generator.request.prompt, "p");

  EXPECT_TRUE(fixture.answer(kChat, kHelloStream).ends_with("data: [DONE]\n\n"));
}

TEST(Routes, AnswersHaveUniqueIds) {
  Fixture fixture;
  fixture.generator.script = say_hello;
  const auto id = [&](const char* pattern, const char* body) {
    return Json::parse(fixture.answer(pattern, body)).at("id").get<std::string>();
  };
  std::set<std::string> ids;
  for (int i = 0; i < 200; ++i) ids.insert(id(kChat, kHello));
  EXPECT_EQ(ids.size(), 200u);
  EXPECT_EQ(ids.begin()->size(), std::string("chatcmpl-").size() + 24);
  EXPECT_EQ(id("/v1/completions", R"({"model":"m","prompt":"p"})").size(),
            std::string("cmpl-").size() + 24);
}

TEST(Routes, HeaderEnablesLiveEvents) {
  Fixture fixture;
  fixture.generator.script = say_hello;
  const std::tuple<const char*, const char*, bool> kRows[] = {
      {kHelloStream, "1", true}, {kHelloStream, "0", false}, {kHello, "1", false}};
  for (const auto& [body, wanted, live] : kRows) {
    http::Request request = request_with(body);
    request.headers.set("x-billow-events", wanted);
    TestCall test(request);
    fixture.call(test, kChat);
    EXPECT_EQ(fixture.generator.request.live_events, live) << body << wanted;
  }
}

TEST(Routes, HeaderLowersThePriority) {
  Fixture fixture;
  fixture.generator.script = say_hello;
  for (const auto& [wanted, is_bulk] : {std::pair{"Bulk", true}, {"interactive", false}}) {
    http::Request request = request_with(kHello);
    request.headers.set("X-Billow-Priority", wanted);
    TestCall test(request);
    fixture.call(test, kChat);
    EXPECT_EQ(fixture.generator.request.is_bulk, is_bulk) << wanted;
  }
}

TEST(Routes, ThrowsErrorsBeforeTheAnswer) {
  Fixture fixture;
  fixture.generator.script = [](Sink&) { throw http::StatusError(404, "model 'm' not found"); };
  for (const char* body : {kHello, kHelloStream}) {
    TestCall test{std::string(body)};
    EXPECT_THROW(fixture.call(test, kChat), http::StatusError);
    EXPECT_FALSE(test.exchange.has_begun);
  }
  TestCall malformed{std::string("{")};
  EXPECT_THROW(fixture.call(malformed, kChat), http::StatusError);
}

TEST(Routes, ErrorWithinAStreamIsItsLastEvent) {
  Fixture fixture;
  const std::tuple<std::function<void()>, int, const char*> kRows[] = {
      {[] { throw http::StatusError(503, "x"); }, 503, "api_error"},
      {[] { throw Error(ErrorCode::kTooLarge, "x"); }, 400, "invalid_request_error"},
      {[] { throw std::runtime_error("x"); }, 500, "api_error"}};
  for (const auto& [fail, status, type] : kRows) {
    fixture.generator.script = [&fail](Sink& sink) {
      sink.delta(text_delta("Hel"));
      fail();
    };
    TestCall test{std::string(kHelloStream)};
    fixture.call(test, kChat);
    EXPECT_TRUE(test.exchange.is_finished);
    EXPECT_EQ(test.exchange.writes.back(), R"(data: {"error":{"message":"x","type":")" +
                                               std::string(type) +
                                               "\",\"param\":null,\"code\":null}}\n\n");
    EXPECT_EQ(test.call.status(), status);
    EXPECT_EQ(test.call.error(), "x");

    TestCall whole{std::string(kHello)};
    EXPECT_ANY_THROW(fixture.call(whole, kChat));
    EXPECT_FALSE(whole.exchange.has_begun);
  }
}

TEST(Routes, SendsNothingToDisconnectedClients) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.delta(text_delta("Hel"));
    throw scheduler::Cancelled();
  };
  TestCall test{std::string(kHelloStream)};
  EXPECT_THROW(fixture.call(test, kChat), scheduler::Cancelled);
  EXPECT_EQ(test.exchange.writes.size(), 1u);
}

TEST(Routes, Embeds) {
  Fixture fixture;
  fixture.embedder.script = [] {
    return EmbedReply{.results = {{.values = {0.5f}}}, .n_prompt = 2};
  };
  EXPECT_EQ(fixture.answer("/v1/embeddings", R"({"model":"e","input":"a","dimensions":1})"),
            R"({"object":"list","data":[{"object":"embedding","embedding":[0.5],"index":0}],)"
            R"("model":"e","usage":{"prompt_tokens":2,"total_tokens":2}})"
            "\n");
  EXPECT_EQ(fixture.embedder.request.inputs, std::vector<EmbedInput>{"a"});
  EXPECT_EQ(fixture.embedder.request.dimensions, 1u);
}

TEST(Routes, NoModelsAreAnEmptyList) {
  Fixture fixture;
  EXPECT_EQ(fixture.answer("/v1/models", ""), "{\"object\":\"list\",\"data\":[]}\n");
}

TEST(Routes, ModelsAreListedNewestFirst) {
  Fixture fixture;
  const auto put = [&](const char* name, int64_t seconds) {
    const store::Name stored = store::put_sample(fixture.store, name, name);
    const auto time = std::filesystem::file_time_type::clock::from_sys(
        std::chrono::sys_seconds(std::chrono::seconds(seconds)));
    std::filesystem::last_write_time(
        fixture.folder.path() + "/manifests/" + store::manifest_path(stored), time);
  };
  put("old", 1'700'000'000);
  put("ann/new:1b", 1'700'000'100);
  EXPECT_EQ(fixture.answer("/v1/models", ""),
            R"({"object":"list","data":[)"
            R"({"id":"ann/new:1b","object":"model","created":1700000100,"owned_by":"ann"},)"
            R"({"id":"old:latest","object":"model","created":1700000000,"owned_by":"library"}]})"
            "\n");
  EXPECT_EQ(fixture.show("old"), Json::parse(R"({"id":"old","object":"model",)"
                                             R"("created":1700000000,"owned_by":"library"})"));
  EXPECT_EQ(fixture.show("ann/new:1b").at("id"), "ann/new:1b");
  EXPECT_EQ(fixture.show("OLD:latest").at("id"), "OLD:latest");
  EXPECT_EQ(fixture.failure_of_show("nope"), "404 model 'nope:latest' not found");
  EXPECT_EQ(fixture.failure_of_show("no pe"), "400 invalid model name");
}

}  // namespace
}  // namespace billow::api::openai

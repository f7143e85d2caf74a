#include "api/anthropic/routes.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "api/anthropic/errors.h"
#include "api/openai/routes.h"
#include "api/openai/test_call.h"
#include "base/json.h"
#include "base/test_folder.h"
#include "http/status.h"
#include "scheduler/runner.h"
#include "store/sample_model.h"

namespace billow::api::anthropic {
namespace {

constexpr const char* kMessages = "/v1/messages";
constexpr const char* kHello =
    R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})";

struct Fixture {
  void call(openai::TestCall& test, const std::string& pattern) {
    for (const Route& route : routes(generator))
      if (route.pattern == pattern) return route.handler(test.call);
    FAIL() << "no route " << pattern;
  }
  std::string answer(const std::string& pattern, const std::string& body) {
    openai::TestCall test{std::string(body)};
    call(test, pattern);
    EXPECT_TRUE(test.exchange.is_finished);
    EXPECT_EQ(test.exchange.headers.get("request-id"), "id");
    return test.exchange.body();
  }

  openai::ScriptedGenerator generator;
};

TEST(AnthropicRoutes, AnswersAMessage) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.found("m:latest");
    sink.delta(openai::text_delta("Hello"));
    sink.end({.done_reason = "stop", .n_prompt = 3, .n_generated = 1});
  };
  const Json message = Json::parse(fixture.answer(kMessages, kHello));
  EXPECT_EQ(message["content"][0]["text"], "Hello");
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["id"].get<std::string>().size(), 28u);
  EXPECT_EQ(message["model"], "m");
  EXPECT_EQ(fixture.generator.request.messages.at(0).text(), "Hi");
}

TEST(AnthropicRoutes, CountsTokensWithoutAnAnswer) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.sized({.n_prompt = 10, .n_prompt_full = 12});
    sink.rendered("text", 0);
  };
  EXPECT_EQ(fixture.answer("/v1/messages/count_tokens",
                           R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})"),
            "{\"input_tokens\":12}\n");
  EXPECT_TRUE(fixture.generator.request.render_only);
}

TEST(AnthropicRoutes, ErrorWithinAStreamIsAnEvent) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.delta(openai::text_delta("Hel"));
    throw http::StatusError(500, "it broke");
  };
  const std::string stream = R"({"model":"m","max_tokens":5,"stream":true,)"
                             R"("messages":[{"role":"user","content":"Hi"}]})";
  EXPECT_TRUE(fixture.answer(kMessages, stream)
                  .ends_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
                             "\"api_error\",\"message\":\"it broke\"},\"request_id\":\"id\"}\n\n"));
  openai::TestCall whole{std::string(kHello)};
  EXPECT_THROW(fixture.call(whole, kMessages), http::StatusError);
  fixture.generator.script = [](Sink&) { throw scheduler::Cancelled(); };
  openai::TestCall gone{std::string(kHello)};
  EXPECT_THROW(fixture.call(gone, kMessages), scheduler::Cancelled);
}

TEST(AnthropicErrors, HaveATypePerStatus) {
  const std::pair<int, const char*> kTypes[] = {{400, "invalid_request_error"},
                                                {401, "authentication_error"},
                                                {403, "permission_error"},
                                                {404, "not_found_error"},
                                                {413, "request_too_large"},
                                                {429, "rate_limit_error"},
                                                {500, "api_error"},
                                                {503, "overloaded_error"},
                                                {529, "overloaded_error"}};
  for (const auto& [status, type] : kTypes)
    EXPECT_EQ(error_json(status, "no", "r"), R"({"type":"error","error":{"type":")" +
                                                 std::string(type) +
                                                 R"(","message":"no"},"request_id":"r"})");
  EXPECT_EQ(error_response(404, "no").body,
            "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"no\"}}\n");
  EXPECT_TRUE(is_route("/v1/messages") && is_route("/v1/messages/count_tokens"));
  EXPECT_FALSE(is_route("/v1/messagesx") || is_route("/v1/models"));
}

TEST(AnthropicErrors, HaveTheIdOfTheRequest) {
  EXPECT_EQ(error_response(404, "no", "r").headers.get("request-id"), "r");
  EXPECT_EQ(error_response(404, "no").headers.find("request-id"), nullptr);
}

TEST(AnthropicErrors, AreForModelsIfTheClientNamesAVersion) {
  const auto is_for = [](const char* path, bool has_version) {
    http::Request request;
    request.path = path;
    if (has_version) request.headers.set("Anthropic-Version", "2023-06-01");
    return is_route(request);
  };
  EXPECT_TRUE(is_for("/v1/models", true) && is_for("/v1/models/none", true));
  EXPECT_TRUE(is_for("/models", true)) << "the same route";
  EXPECT_FALSE(is_for("/v1/models", false) || is_for("/v1/models/none", false));
  EXPECT_TRUE(is_for("/v1/messages", false));
  EXPECT_FALSE(is_for("/v1/modelsx", true) || is_for("/v1/chat/completions", true));
}

// The list of models in Anthropic's form.
struct ModelsFixture {
  ModelsFixture() {
    for (const auto& [name, seconds] :
         {std::pair{"a", 30}, std::pair{"b", 20}, std::pair{"c", 10}}) {
      const store::Name stored = store::put_sample(store, name, name);
      const auto time = std::filesystem::file_time_type::clock::from_sys(
          std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000 + seconds)));
      std::filesystem::last_write_time(folder.path() + "/manifests/" + store::manifest_path(stored),
                                       time);
    }
  }
  Json get(const std::string& pattern, http::Parameters query, http::Parameters parameters = {}) {
    http::Request request;
    request.query = std::move(query);
    request.parameters = std::move(parameters);
    request.headers = {{"Anthropic-Version", "2023-06-01"}};
    openai::TestCall test(request);
    for (const Route& route : openai::routes(generator, embedder, store))
      if (route.pattern == pattern) route.handler(test.call);
    EXPECT_EQ(test.exchange.headers.get("request-id"), "id");
    return Json::parse(test.exchange.body());
  }
  std::string ids(const http::Parameters& query) {
    const Json list = get("/v1/models", query);
    std::string text;
    for (const Json& model : list["data"]) text += model["id"].get<std::string>() + " ";
    EXPECT_EQ(list["first_id"].is_null(), list["data"].empty());
    return text + list["has_more"].dump();
  }

  TestFolder folder;
  store::Store store{folder.path()};
  openai::ScriptedGenerator generator;
  openai::ScriptedEmbedder embedder;
};

TEST(AnthropicModels, AreListedInPages) {
  ModelsFixture fixture;
  EXPECT_EQ(fixture.ids({}), "a:latest b:latest c:latest false");
  EXPECT_EQ(fixture.ids({{"limit", "2"}}), "a:latest b:latest true");
  EXPECT_EQ(fixture.ids({{"limit", "2"}, {"after_id", "b:latest"}}), "c:latest false");
  EXPECT_EQ(fixture.ids({{"limit", "1"}, {"before_id", "c:latest"}}), "b:latest true");
  EXPECT_EQ(fixture.ids({{"after_id", "c:latest"}}), "false");
  for (const auto& [name, value] :
       {std::pair{"limit", "0"}, std::pair{"limit", "x"}, std::pair{"after_id", "z"}})
    EXPECT_THROW(fixture.get("/v1/models", {{name, value}}), http::StatusError);
}

TEST(AnthropicModels, HaveAnthropicsForm) {
  ModelsFixture fixture;
  EXPECT_EQ(fixture.get("/v1/models/:model", {}, {{"model", "a"}}),
            Json::parse(R"({"type":"model","id":"a","display_name":"a",)"
                        R"("created_at":"2023-11-14T22:13:50Z","lifecycle":"active"})"));
}

}  // namespace
}  // namespace billow::api::anthropic

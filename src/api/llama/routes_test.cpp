#include "api/llama/routes.h"

#include <gtest/gtest.h>

#include "api/llama/test_answer.h"
#include "api/openai/test_call.h"
#include "api/sample_served.h"
#include "base/json.h"

namespace billow::api::llama {
namespace {

struct Fixture {
  // Returns "200 BODY", or the status and the text of an error.
  std::string answer(http::Method method, const std::string& path, const std::string& body,
                     http::Parameters query = {}) {
    http::Request request = openai::request_with(body);
    request.query = std::move(query);
    return answer_of(routes({.generator = generator,
                             .catalog = models.catalog,
                             .store = models.store,
                             .state = [this] { return state; },
                             .slots = slots,
                             .slot_files = slot_files,
                             .do_with_text = nullptr,
                             .version = "1.2.3",
                             .max_context = 1024}),
                     method, path, std::move(request));
  }
  std::string post(const std::string& path, const std::string& body, http::Parameters query = {}) {
    return answer(http::Method::kPost, path, body, std::move(query));
  }
  std::string get(const std::string& path, http::Parameters query = {}) {
    return answer(http::Method::kGet, path, "", std::move(query));
  }
  Json got(const std::string& path) { return Json::parse(get(path).substr(4)); }
  void say(const char* text) {
    generator.script = [text](Sink& sink) {
      sink.delta(openai::text_delta(text));
      sink.end({.done_reason = "stop", .n_prompt = 3, .n_generated = 1});
    };
  }

  SampleStore models;
  openai::ScriptedGenerator generator;
  scheduler::SchedulerState state{};
  Slots slots{4};
  SlotFiles slot_files{{}};
};

TEST(LlamaRoutes, CompletesWithTheOnlyModel) {
  Fixture fixture;
  fixture.models.add({.name = "m", .go = kLines});
  fixture.say("Hello");
  for (const char* path : {"/completion", "/completions"}) {
    const std::string reply = fixture.post(path, R"({"prompt":[97,"hello"]})");
    ASSERT_TRUE(reply.starts_with("200 ")) << reply;
    const Json answer = Json::parse(reply.substr(4));
    EXPECT_EQ(answer["content"], "Hello");
    EXPECT_EQ(answer["prompt"], "ahello");
    EXPECT_EQ(answer["model"], "m:latest");
    EXPECT_EQ(fixture.generator.request.prompt_tokens, (std::vector<int32_t>{97, 259}));
  }
}

TEST(LlamaRoutes, RequiresAModelNameIfThereAreSeveral) {
  Fixture fixture;
  EXPECT_EQ(fixture.post("/completion", R"({"prompt":"a"})"),
            "400 model is required: a field \"model\", or ?model=NAME after the path");
  fixture.models.add({.name = "m", .go = kLines});
  fixture.models.add({.name = "n", .go = kLines});
  fixture.say("Hello");
  EXPECT_TRUE(
      fixture.post("/completion", R"({"prompt":"a"})").starts_with("400 model is required"));
  EXPECT_TRUE(fixture.post("/completion", R"({"prompt":"a","model":"n"})").starts_with("200 "));
  EXPECT_TRUE(
      fixture.post("/completion", R"({"prompt":"a"})", {{"model", "n"}}).starts_with("200 "));
  EXPECT_EQ(fixture.post("/completion", R"({"prompt":"a","model":"no"})"),
            "404 model 'no' not found");
  EXPECT_EQ(fixture.post("/completion", R"({"prompt":[5000],"model":"m"})"),
            "400 field \"prompt\" has the id 5000, which is not a token of the model");
  EXPECT_EQ(fixture.post("/infill", R"({"input_prefix":"a","model":"m"})"),
            "400 the model cannot fill gaps: its vocabulary has no token for the prefix");
  EXPECT_EQ(fixture.post("/infill", R"({"prompt":"a","model":"m"})"),
            "400 fields \"input_prefix\" and \"input_suffix\" are missing; give one of them");
  EXPECT_EQ(fixture.post("/infill", R"({"input_prefix":"a","input_extra":[{}],"model":"m"})"),
            "400 field \"input_extra\" has a file without \"text\"");
}

TEST(LlamaRoutes, SeveralPromptsHaveSeveralAnswers) {
  Fixture fixture;
  fixture.models.add({.name = "m", .go = kLines});
  fixture.say("Hello");
  const Json list = Json::parse(fixture.post("/completion", R"({"prompt":["a","b"]})").substr(4));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["index"], 1);
  EXPECT_EQ(list[1]["prompt"], "b");
}

TEST(LlamaRoutes, AppliesTheTemplate) {
  Fixture fixture;
  fixture.models.add({.name = "m", .go = kLines});
  fixture.generator.script = [](Sink& sink) { sink.rendered("user: hi", 0); };
  EXPECT_EQ(fixture.post("/apply-template", R"({"messages":[{"role":"user","content":"hi"}]})"),
            "200 {\"prompt\":\"user: hi\"}\n");
  EXPECT_TRUE(fixture.generator.request.render_only);
  EXPECT_EQ(fixture.generator.request.model, "m:latest");
}

TEST(LlamaRoutes, ShowsPropertiesAndTokenizer) {
  Fixture fixture;
  fixture.models.add({.name = "m", .go = kLines, .params_json = R"({"temperature":0.5})"});
  const Json props = fixture.got("/props");
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 1024);
  EXPECT_EQ(props["default_generation_settings"]["params"]["temperature"], 0.5);
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["model_alias"], "m:latest");
  EXPECT_EQ(props["chat_template"], kLines);
  EXPECT_EQ(props["bos_token"], "<bos>");
  const Json info = fixture.got("/tokenizer_info");
  EXPECT_EQ(info["tokenizer_class"], "gpt2");
  EXPECT_EQ(info["eos_token"], "<eos>");
  EXPECT_EQ(info["vocab_size"], fixture.models.catalog.find("m")->weights->tokenizer.n_tokens());
  EXPECT_EQ(fixture.get("/version"), "200 {\"version\":\"1.2.3\"}\n");
}

TEST(LlamaRoutes, AliasesSomeRoutesWithoutVersion) {
  const std::vector<Route> made = aliases(
      {{.methods = {http::Method::kPost}, .pattern = "/v1/chat/completions", .is_traced = true},
       {.methods = {http::Method::kGet}, .pattern = "/v1/models"},
       {.methods = {http::Method::kGet}, .pattern = "/v1/other"}});
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].pattern, "/chat/completions");
  EXPECT_TRUE(made[0].is_traced);
  EXPECT_EQ(made[1].pattern, "/models");
}

}  // namespace
}  // namespace billow::api::llama

#include "api/openai/completions_codec.h"

#include <gtest/gtest.h>

#include "api/openai/refusal.h"
#include "api/openai/test_call.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

const AnswerHead kHead{.id = "cmpl-7", .created = 1767322000, .model = "m"};
const Ending kEnding{
    .done_reason = "length", .context = {}, .n_prompt = 11, .n_cached = 4, .n_generated = 2};
constexpr const char* kUsage =
    R"("usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13,)"
    R"("prompt_tokens_details":{"cached_tokens":4}})";
constexpr const char* kNoUsage =
    R"(,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})";

std::string answer_head() {
  return R"({"id":"cmpl-7","object":"text_completion","created":1767322000,"model":"m",)"
         R"("system_fingerprint":"fp_ollama","choices":)";
}
std::string chunk(const std::string& choice, const std::string& more = "") {
  return "data: " + answer_head() + "[{" + choice + "}]" + more + "}\n\n";
}

Json options(const std::string& fields) {
  return Json::parse(
      decode_completion(R"({"model":"m","prompt":"p",)" + fields + "}").generation.options_json);
}

std::string answered(bool stream, bool include_usage,
                     const std::function<void(TextAnswer& answer)>& write) {
  TestCall test;
  const auto answer = completion_answer(
      test.call, kHead,
      TextRequest{.generation = {}, .stream = stream, .include_usage = include_usage});
  write(*answer);
  EXPECT_TRUE(test.exchange.is_finished);
  EXPECT_EQ(test.exchange.status, 200);
  EXPECT_EQ(test.exchange.content_type, stream ? "text/event-stream" : "application/json");
  return test.exchange.body();
}

TEST(CompletionRequest, IsAPromptWithTheTemplate) {
  const TextRequest request =
      decode_completion(R"({"model":"m","prompt":"p","suffix":"s","stream":true,)"
                        R"("stream_options":{"include_usage":true},"keep_alive":5})");
  const GenerationRequest& generation = request.generation;
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(generation.kind, GenerationKind::kPrompt);
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(generation.prompt, "p");
  EXPECT_EQ(generation.suffix, "s");
  EXPECT_FALSE(generation.raw);
  EXPECT_FALSE(generation.logprobs);
  EXPECT_EQ(generation.keep_alive_json, "5");
  EXPECT_EQ(Json::parse(generation.options_json), Json::parse(R"({"temperature":1,"top_p":1})"));
}

TEST(CompletionRequest, MayBeEmpty) {
  EXPECT_EQ(decode_completion("{}").generation.prompt, "");
  EXPECT_EQ(decode_completion("{}").generation.model, "");
}

TEST(CompletionRequest, FieldsBecomeOptions) {
  EXPECT_EQ(options(R"("top_p":0)").at("top_p"), 1.0);
  EXPECT_EQ(options(R"("top_p":0,"options":{"top_p":0.5})").at("top_p"), 1.0);
  EXPECT_EQ(options(R"("top_p":0.25)").at("top_p"), 0.25);
  EXPECT_EQ(options(R"("temperature":0)").at("temperature"), 0.0);
  EXPECT_EQ(options(R"("max_tokens":5)").at("num_predict"), 5);
  EXPECT_EQ(options(R"("seed":1,"frequency_penalty":1,"presence_penalty":2)").size(), 5u);
  EXPECT_EQ(options(R"("stop":"a")").at("stop"), Json::parse(R"(["a"])"));
  EXPECT_EQ(options(R"("stop":["a","b"])").at("stop"), Json::parse(R"(["a","b"])"));
  EXPECT_EQ(options(R"("num_ctx":9)").at("num_ctx"), 9);
  EXPECT_EQ(options(R"("echo":true,"best_of":2,"n":3)").size(), 2u);
}

TEST(CompletionRequest, LogprobsAreHowManyOthers) {
  const auto request = [](const char* n) {
    return decode_completion(R"({"prompt":"p","logprobs":)" + std::string(n) + "}").generation;
  };
  EXPECT_FALSE(request("0").logprobs);
  EXPECT_TRUE(request("3").logprobs);
  EXPECT_EQ(request("3").top_logprobs, 3);
}

TEST(CompletionRequest, RefusalsSayWhatClientsKnow) {
  const std::pair<const char*, const char*> kRefusals[] = {
      {"", "EOF"},
      {R"({"prompt":["p"]})",
       "json: cannot unmarshal array into Go struct field CompletionRequest.prompt of type string"},
      {R"({"logprobs":21})", "top_logprobs must be between 0 and 20"},
      {R"({"stop":["a",1]})", "invalid type for 'stop' field: float64"},
      {R"({"stop":[null]})", "invalid type for 'stop' field: <nil>"},
      {R"({"stop":[{}]})", "invalid type for 'stop' field: map[string]interface {}"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_completion, body), text);
}

TEST(CompletionObject, IsExactlyThis) {
  EXPECT_EQ(
      answered(false, false,
               [](TextAnswer& answer) {
                 answer.delta({.content = "Hel", .thinking = "hm"});
                 answer.delta({.content = "lo"});
                 answer.end(kEnding);
               }),
      answer_head() + R"([{"text":"Hello","index":0,"finish_reason":"length"}],)" + kUsage + "}\n");
}

TEST(CompletionObject, OfNoPromptIsALoad) {
  EXPECT_EQ(answered(false, false,
                     [](TextAnswer& answer) { answer.end({.done_reason = "load", .context = {}}); })
                .find(answer_head() + R"([{"text":"","index":0,"finish_reason":"load"}],)"),
            0u);
}

TEST(CompletionObject, LogprobsHaveOpenAisForm) {
  Delta first{.content = "\xc3\xa9"};
  first.logprobs.push_back({"\xc3\xa9", -0.5, "\xc3\xa9", {{"e", -1.0, "e"}, {"e", -2.0, "e"}}});
  Delta second{.content = "st"};
  second.logprobs.push_back({"s", -0.25, "s", {}});
  second.logprobs.push_back({"t", -0.125, "t", {}});
  const std::string expected =
      R"("logprobs":{"tokens":["é","s","t"],"token_logprobs":[-0.5,-0.25,-0.125],)"
      R"("top_logprobs":[{"e":-1},{},{}],"text_offset":[0,1,2]})";
  const std::string body = answered(false, false, [&](TextAnswer& answer) {
    answer.delta(first);
    answer.delta(second);
    answer.end(kEnding);
  });
  EXPECT_NE(body.find(expected), std::string::npos) << body;
  const std::string stream = answered(true, false, [&](TextAnswer& answer) {
    answer.delta(first);
    answer.delta(second);
    answer.end(kEnding);
  });
  EXPECT_NE(stream.find(R"("text_offset":[1,2])"), std::string::npos) << stream;
}

TEST(CompletionStream, IsExactlyThis) {
  const auto write = [](TextAnswer& answer) {
    answer.delta({.content = "Hel"});
    answer.delta({.content = "", .thinking = "hm"});
    answer.delta({.content = "lo"});
    answer.end(kEnding);
  };
  for (const bool include_usage : {false, true}) {
    const std::string none = include_usage ? kNoUsage : "";
    EXPECT_EQ(
        answered(true, include_usage, write),
        chunk(R"("text":"Hel","index":0,"finish_reason":null)", none) +
            chunk(R"("text":"","index":0,"finish_reason":null)", none) +
            chunk(R"("text":"lo","index":0,"finish_reason":null)", none) +
            chunk(R"("text":"","index":0,"finish_reason":"length")", none) +
            (include_usage ? "data: " + answer_head() + "[]," + kUsage + "}\n\n" : std::string()) +
            "data: [DONE]\n\n");
  }
}

TEST(CompletionStream, EventsAreCommentsAndErrorsEndIt) {
  const std::string body = answered(true, false, [](TextAnswer& answer) {
    EXPECT_FALSE(answer.fail(500, "early"));
    Delta delta{.content = "a"};
    delta.events = {R"({"text":"[transition] x"})"};
    answer.delta(delta);
    EXPECT_TRUE(answer.fail(404, "late"));
  });
  EXPECT_EQ(body, ": [transition] x\n\n" + chunk(R"("text":"a","index":0,"finish_reason":null)") +
                      R"(data: {"error":{"message":"late","type":"not_found_error",)"
                      "\"param\":null,\"code\":null}}\n\n");
}

}  // namespace
}  // namespace billow::api::openai

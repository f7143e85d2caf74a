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

GenerationRequest decoded(const std::string& fields) {
  return decode_completion(R"({"model":"m","prompt":"p",)" + fields + "}").generations.at(0);
}
Options options(const std::string& fields) { return decoded(fields).options; }
scheduler::Sampling sampling(const std::string& fields) { return options(fields).sampling; }

std::string answered(bool stream, bool include_usage,
                     const std::function<void(TextAnswer& answer)>& write) {
  TestCall test;
  const auto answer = completion_answer(test.call, kHead,
                                        TextRequest{.generations = {GenerationRequest{}},
                                                    .stream = stream,
                                                    .include_usage = include_usage,
                                                    .shows_logprobs = true});
  write(*answer);
  EXPECT_TRUE(test.exchange.is_finished);
  EXPECT_EQ(test.exchange.status, 200);
  EXPECT_EQ(test.exchange.content_type, stream ? "text/event-stream" : "application/json");
  return test.exchange.body();
}

TEST(CompletionRequest, ReadsAPromptWithASuffix) {
  const TextRequest request =
      decode_completion(R"({"model":"m","prompt":"p","suffix":"s","stream":true,)"
                        R"("stream_options":{"include_usage":true},"keep_alive":5})");
  const GenerationRequest& generation = request.generations.at(0);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(generation.kind, GenerationKind::kPrompt);
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(generation.prompt, "p");
  EXPECT_EQ(generation.suffix, "s");
  EXPECT_FALSE(generation.raw);
  EXPECT_FALSE(generation.logprobs);
  EXPECT_EQ(generation.keep_alive, std::chrono::seconds(5));
  EXPECT_EQ(generation.options.sampling, (scheduler::Sampling{.temperature = 1.0, .top_p = 1.0}));
}

TEST(CompletionRequest, PromptsAreRawByDefault) {
  EXPECT_TRUE(decoded(R"("n":1)").raw);
  EXPECT_FALSE(decoded(R"("raw":false)").raw);
  EXPECT_FALSE(decoded(R"("suffix":"s")").raw);
}

TEST(CompletionRequest, PromptsAreTextsOrTokensOrListsOfThem) {
  const auto prompts = [](const std::string& prompt) {
    return decode_completion(R"({"prompt":)" + prompt + "}").generations;
  };
  EXPECT_EQ(prompts(R"(["a","b"])").size(), 2u);
  EXPECT_EQ(prompts(R"(["a","b"])").at(1).prompt, "b");
  EXPECT_EQ(prompts("[1,2,3]").size(), 1u);
  EXPECT_EQ(prompts("[1,2,3]").at(0).prompt_tokens, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(prompts("[[1,2],[3]]").at(1).prompt_tokens, (std::vector<int32_t>{3}));
  for (const char* wrong :
       {"5", "{}", "[]", "[[]]", "[1,\"a\"]", "[\"a\",1]", "[1.5]", "[[\"a\"]]"}) {
    EXPECT_TRUE(refusal(decode_completion, R"({"prompt":)" + std::string(wrong) + "}")
                    .starts_with("field \"prompt\" must be a string"))
        << wrong;
  }
  EXPECT_EQ(refusal(decode_completion, R"({"prompt":[-1]})"),
            "field \"prompt\" has the id -1, which is not a token");
}

TEST(CompletionRequest, LimitsChoices) {
  const TextRequest request = decode_completion(R"({"prompt":["a","b"],"n":2,"best_of":3})");
  EXPECT_EQ(request.n, 2u);
  EXPECT_EQ(request.best_of, 3u);
  EXPECT_TRUE(request.generations.at(1).logprobs) << "best_of needs them";
  EXPECT_FALSE(request.shows_logprobs);
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"({"n":0})", "field \"n\" must be an integer from 1 to 128"},
      {R"({"n":129})", "field \"n\" must be an integer from 1 to 128"},
      {R"({"n":3,"best_of":2})", "field \"best_of\" must be at least \"n\""},
      {R"({"best_of":2,"stream":true})",
       "field \"best_of\" cannot be streamed if it is more than \"n\""},
      {R"({"prompt":["a","b"],"n":65})", "a request has at most 128 choices, this one 130"},
      {R"({"suffix":"s","echo":true})", "field \"echo\" cannot be combined with \"suffix\""},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_completion, body), text);
}

TEST(CompletionRequest, MayBeEmpty) {
  EXPECT_EQ(decode_completion("{}").generations.at(0).prompt, "");
  EXPECT_EQ(decode_completion("{}").generations.at(0).model, "");
}

TEST(CompletionRequest, FieldsBecomeOptions) {
  EXPECT_EQ(sampling(R"("top_p":0)").top_p, 1.0);
  EXPECT_EQ(sampling(R"("top_p":0,"options":{"top_p":0.5})").top_p, 1.0);
  EXPECT_EQ(sampling(R"("top_p":0.25)").top_p, 0.25);
  EXPECT_EQ(sampling(R"("temperature":0)").temperature, 0.0);
  EXPECT_EQ(options(R"("max_tokens":5)").num_predict, 5);
  EXPECT_EQ(options(R"("n_predict":6)").num_predict, 6);
  EXPECT_EQ(sampling(R"("seed":1,"frequency_penalty":1,"presence_penalty":2)"),
            (scheduler::Sampling{.temperature = 1.0,
                                 .top_p = 1.0,
                                 .presence_penalty = 2.0,
                                 .frequency_penalty = 1.0,
                                 .seed = 1}));
  EXPECT_EQ(options(R"("stop":"a")").stop, std::vector<std::string>{"a"});
  EXPECT_EQ(options(R"("stop":["a","b"])").stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options(R"("num_ctx":9)").num_ctx, 9u);
}

TEST(CompletionRequest, LogprobsSetTheNumberOfAlternatives) {
  const auto request = [](const char* n) {
    return decode_completion(R"({"prompt":"p","logprobs":)" + std::string(n) + "}")
        .generations.at(0);
  };
  EXPECT_TRUE(request("0").logprobs) << "only of the chosen token";
  EXPECT_FALSE(request("null").logprobs);
  EXPECT_TRUE(request("3").logprobs);
  EXPECT_EQ(request("3").top_logprobs, 3);
}

TEST(CompletionRequest, RefusesInOllamasWords) {
  const std::pair<const char*, const char*> kRefusals[] = {
      {"", "EOF"},
      {R"({"logprobs":21})", "top_logprobs must be between 0 and 20"},
      {R"({"dry_multiplier":0.5})",
       "field \"dry_multiplier\" is not supported: this server has no such sampler"},
      {R"({"stop":["a",1]})", "invalid type for 'stop' field: float64"},
      {R"({"stop":[null]})", "invalid type for 'stop' field: <nil>"},
      {R"({"stop":[{}]})", "invalid type for 'stop' field: map[string]interface {}"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refusal(decode_completion, body), text);
}

TEST(CompletionObject, HasExactBytes) {
  EXPECT_EQ(
      answered(false, false,
               [](TextAnswer& answer) {
                 answer.delta(joined(thinking_delta("hm"), text_delta("Hel")));
                 answer.delta(text_delta("lo"));
                 answer.end(kEnding);
               }),
      answer_head() + R"([{"text":"Hello","index":0,"finish_reason":"length"}],)" + kUsage + "}\n");
}

TEST(CompletionObject, EmptyPromptIsALoad) {
  EXPECT_EQ(answered(false, false,
                     [](TextAnswer& answer) { answer.end({.done_reason = "load", .context = {}}); })
                .find(answer_head() + R"([{"text":"","index":0,"finish_reason":"load"}],)"),
            0u);
}

TEST(CompletionObject, LogprobsHaveOpenAisForm) {
  Delta first = text_delta("\xc3\xa9");
  first.logprobs.push_back({"\xc3\xa9", -0.5, "\xc3\xa9", {{"e", -1.0, "e"}, {"e", -2.0, "e"}}});
  Delta second = text_delta("st");
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

TEST(CompletionStream, HasExactBytes) {
  const auto write = [](TextAnswer& answer) {
    answer.delta(text_delta("Hel"));
    answer.delta(thinking_delta("hm"));
    answer.delta(text_delta("lo"));
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

// The generator begins again after a runner's death. The client has the prompt already.
TEST(CompletionStream, SendsThePromptOnce) {
  const auto write = [](TextAnswer& answer) {
    Delta prompt{.is_prompt = true, .events = {{EventKind::kText, 0, "the prompt"}}};
    EXPECT_TRUE(answer.delta(prompt));
    answer.restart(0);
    EXPECT_TRUE(answer.delta(prompt));
    EXPECT_TRUE(answer.delta({.events = {{EventKind::kText, 0, " answer"}}}));
    EXPECT_TRUE(answer.end(kEnding));
  };
  for (const bool stream : {false, true}) {
    const std::string text = answered(stream, false, write);
    const size_t first = text.find("the prompt");
    EXPECT_NE(first, text.npos);
    EXPECT_EQ(text.find("the prompt", first + 1), text.npos) << text;
  }
}

TEST(CompletionStream, EventsAreCommentsAndErrorsEndIt) {
  const std::string body = answered(true, false, [](TextAnswer& answer) {
    EXPECT_FALSE(answer.fail(500, "early"));
    Delta delta = text_delta("a");
    delta.notices = {R"({"text":"[transition] x"})"};
    answer.delta(delta);
    EXPECT_TRUE(answer.fail(404, "late"));
  });
  EXPECT_EQ(body, ": [transition] x\n\n" + chunk(R"("text":"a","index":0,"finish_reason":null)") +
                      R"(data: {"error":{"message":"late","type":"not_found_error",)"
                      "\"param\":null,\"code\":null}}\n\n");
}

// Two prompts with two choices each. Only the better choice is returned.
TEST(CompletionObject, ReturnsTheBestOfEachPrompt) {
  TestCall test;
  const TextRequest request = decode_completion(R"({"prompt":["a","b"],"n":1,"best_of":2})");
  const auto answer = completion_answer(test.call, kHead, request);
  for (size_t i = 0; i < 4; ++i) {
    Delta delta = text_delta("text " + std::to_string(i));
    delta.choice = i;
    delta.logprobs.push_back({"t", i == 1 || i == 2 ? -0.5 : -1.0, "t", {}});
    EXPECT_TRUE(answer->delta(delta));
  }
  for (size_t i = 0; i < 4; ++i)
    answer->end({.choice = i, .done_reason = "stop", .n_prompt = 5, .n_generated = 1});
  const Json body = Json::parse(test.exchange.body());
  ASSERT_EQ(body["choices"].size(), 2u);
  EXPECT_EQ(body["choices"][0]["text"], "text 1");
  EXPECT_EQ(body["choices"][1]["text"], "text 2");
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_FALSE(body["choices"][0].contains("logprobs"));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 10) << "each prompt counts once";
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);
}

}  // namespace
}  // namespace billow::api::openai

// Compares chat answers byte for byte.
#include <gtest/gtest.h>

#include "api/openai/chat_codec.h"
#include "api/openai/test_call.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

using std::chrono::seconds;

const AnswerHead kHead{.id = "chatcmpl-7", .created = 1767322000, .model = "m"};
const Ending kEnding{
    .done_reason = "stop", .context = {}, .n_prompt = 11, .n_cached = 4, .n_generated = 2};
constexpr const char* kUsage =
    R"("usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13,)"
    R"("prompt_tokens_details":{"cached_tokens":4}})";

Delta content(const char* text) { return text_delta(text); }
Delta thinking(const char* text) { return thinking_delta(text); }
std::string call_json(size_t index, const char* name) {
  return R"({"id":"call_)" + std::to_string(index) + R"(","index":)" + std::to_string(index) +
         R"(,"type":"function","function":{"name":")" + name + R"(","arguments":"{\"a\":1}"}})";
}

// Returns an event. `rest` follows the chunk's head.
std::string chunk(const std::string& rest) {
  return R"(data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":1767322000,)"
         R"("model":"m","system_fingerprint":"fp_ollama","choices":)" +
         rest + "}\n\n";
}
std::string delta_chunk(const std::string& delta, const std::string& more = "") {
  return chunk(R"([{"index":0,"delta":)" + delta + R"(,"finish_reason":null)" + more + "}]");
}
std::string finish_chunk(const std::string& reason) {
  return chunk(R"([{"index":0,"delta":{},"finish_reason":")" + reason + "\"}]");
}
constexpr const char* kDoneLine = "data: [DONE]\n\n";

struct Answered {
  explicit Answered(bool stream, bool include_usage = false, size_t n = 1,
                    bool legacy_calls = false)
      : answer(chat_answer(test.call, kHead,
                           TextRequest{.n = n,
                                       .stream = stream,
                                       .include_usage = include_usage,
                                       .legacy_calls = legacy_calls},
                           clock.now())) {}

  std::string body() const { return test.exchange.body(); }

  TestCall test;
  TestClock clock;
  std::unique_ptr<TextAnswer> answer;
};

TEST(ChatObject, HasTheWholeText) {
  Answered it(false);
  it.answer->delta(content("Hel"));
  it.answer->delta(content("lo <b>"));
  EXPECT_FALSE(it.test.exchange.has_begun);
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_EQ(it.test.exchange.status, 200);
  EXPECT_EQ(it.test.exchange.content_type, "application/json");
  EXPECT_EQ(it.body(),
            R"({"id":"chatcmpl-7","object":"chat.completion","created":1767322000,"model":"m",)"
            R"("system_fingerprint":"fp_ollama","choices":[{"index":0,"message":)"
            R"({"role":"assistant","content":"Hello \u003cb\u003e"},"finish_reason":"stop"}],)" +
                std::string(kUsage) + "}\n");
}

TEST(ChatObject, CountsAcceptedTokensOfAPrediction) {
  TextRequest request{.n = 1};
  request.generations.emplace_back().prediction = "Hello";
  TestCall test;
  TestClock clock;
  const auto answer = chat_answer(test.call, kHead, request, clock.now());
  answer->delta(content("Hello"));
  Ending ending = kEnding;
  ending.n_drafted = 7;
  ending.n_draft_accepted = 5;
  EXPECT_TRUE(answer->end(ending));
  EXPECT_NE(
      test.exchange.body().find(R"("completion_tokens_details":{"accepted_prediction_tokens":5,)"
                                R"("rejected_prediction_tokens":2})"),
      std::string::npos)
      << test.exchange.body();
}

TEST(ChatObject, HasReasoningCallsAndLogprobs) {
  Answered it(false);
  Delta delta = joined(thinking("hm"), call_delta(0, "f"));
  delta.logprobs.push_back({"a", -0.5, "a", {{"a", -0.5, "a"}, {"\xc3", -2.0, "\xc3"}}});
  it.answer->delta(delta);
  it.answer->delta(joined(thinking("!"), call_delta(1, "g")));
  it.answer->end(kEnding);
  EXPECT_NE(it.body().find(R"("choices":[{"index":0,"message":{"role":"assistant","content":"",)"
                           R"("reasoning":"hm!","tool_calls":[)" +
                           call_json(0, "f") + "," + call_json(1, "g") +
                           R"(]},"finish_reason":"tool_calls","logprobs":{"content":[{"token":"a",)"
                           R"("logprob":-0.5,"bytes":[97],"top_logprobs":[)"
                           R"({"token":"a","logprob":-0.5,"bytes":[97]},)"),
            std::string::npos)
      << it.body();
  EXPECT_NE(it.body().find(R"("bytes":[195])"), std::string::npos);
}

TEST(ChatObject, ReportsFinishReasons) {
  const std::pair<const char*, const char*> kReasons[] = {{"stop", "\"stop\""},
                                                          {"length", "\"length\""},
                                                          {"repetition", "\"length\""},
                                                          {"repeats", "\"length\""},
                                                          {"", "null"}};
  for (const auto& [reason, text] : kReasons) {
    Answered it(false);
    it.answer->end({.done_reason = reason, .context = {}});
    EXPECT_NE(it.body().find(R"("content":""},"finish_reason":)" + std::string(text) + "}"),
              std::string::npos)
        << it.body();
  }
  Answered cut(false);
  cut.answer->delta(call_delta(0, "f"));
  cut.answer->end({.done_reason = "length", .context = {}});
  EXPECT_NE(cut.body().find(R"("finish_reason":"length")"), std::string::npos);
}

TEST(ChatObject, ShowsARenderedPrompt) {
  Answered it(false);
  EXPECT_TRUE(it.answer->rendered("<s>Hi", 2));
  EXPECT_NE(it.body().find(R"("_debug_info":{"rendered_template":"\u003cs\u003eHi",)"
                           R"("image_count":2}})"),
            std::string::npos)
      << it.body();
  Answered without(false);
  without.answer->rendered("Hi", 0);
  EXPECT_EQ(without.body().find("image_count"), std::string::npos);
}

TEST(ChatStream, HasExactBytes) {
  Answered it(true, true);
  EXPECT_FALSE(it.test.exchange.has_begun);
  EXPECT_TRUE(it.answer->delta(content("Hel")));
  EXPECT_EQ(it.test.exchange.status, 200);
  EXPECT_EQ(it.test.exchange.content_type, "text/event-stream");
  EXPECT_EQ(it.test.exchange.writes.size(), 1u);
  EXPECT_TRUE(it.answer->delta(content("lo")));
  EXPECT_EQ(it.test.exchange.writes.size(), 2u);
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_TRUE(it.test.exchange.is_finished);
  EXPECT_EQ(it.body(), delta_chunk(R"({"role":"assistant","content":"Hel"})") +
                           delta_chunk(R"({"content":"lo"})") + finish_chunk("stop") +
                           chunk("[]," + std::string(kUsage)) + kDoneLine);
}

TEST(ChatStream, SendsUsageOnlyOnRequest) {
  Answered it(true);
  it.answer->delta(content("Hello"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), delta_chunk(R"({"role":"assistant","content":"Hello"})") +
                           finish_chunk("stop") + kDoneLine);
}

TEST(ChatStream, AnEmptyAnswerHasOneChunk) {
  for (const auto& [given, sent] : {std::pair{"", "stop"}, std::pair{"length", "length"}}) {
    Answered it(true);
    it.answer->end({.done_reason = given, .context = {}});
    EXPECT_EQ(it.body(),
              delta_chunk(R"({"role":"assistant","content":""})") + finish_chunk(sent) + kDoneLine);
  }
}

TEST(ChatStream, ReasoningComesBeforeTheAnswer) {
  Answered it(true);
  it.answer->delta(thinking("Let"));
  Delta both = joined(thinking(" me"), content("Four"));
  both.logprobs.push_back({"F", -1.0, "F"});
  it.answer->delta(both);
  it.answer->delta(content("."));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(),
            delta_chunk(R"({"role":"assistant","content":"","reasoning":"Let"})") +
                delta_chunk(R"({"reasoning":" me"})",
                            R"(,"logprobs":{"content":[{"token":"F","logprob":-1,"bytes":[70],)"
                            R"("top_logprobs":[]}]})") +
                delta_chunk(R"({"content":"Four"})") + delta_chunk(R"({"content":"."})") +
                finish_chunk("stop") + kDoneLine);
}

// A stream sends the name of a call first, then its arguments in pieces.
std::string begin_part(size_t index, const char* name) {
  const std::string number = std::to_string(index);
  return R"("tool_calls":[{"index":)" + number + R"(,"id":"call_)" + number +
         R"(","type":"function","function":{"name":")" + name + R"(","arguments":""}}])";
}
std::string arguments_chunk(size_t index, const char* text) {
  return delta_chunk(R"({"tool_calls":[{"index":)" + std::to_string(index) +
                     R"(,"function":{"arguments":")" + text + "\"}}]}");
}

TEST(ChatStream, OnlyTheFirstChunkHasTheRole) {
  Answered it(true);
  it.answer->delta(joined(thinking("hm"), call_delta(0, "f")));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), delta_chunk(R"({"role":"assistant","content":"","reasoning":"hm"})") +
                           delta_chunk("{" + begin_part(0, "f") + "}") +
                           arguments_chunk(0, R"({\"a\":1})") + finish_chunk("tool_calls") +
                           kDoneLine);
}

TEST(ChatStream, StreamsArgumentsAndSetsTheReason) {
  Answered it(true);
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "call_0"}}});
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, R"({"a")"}}});
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, ":1}"}, {EventKind::kCallEnd, 0}}});
  it.answer->delta(call_delta(1, "g"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(),
            delta_chunk(R"({"role":"assistant","content":"",)" + begin_part(0, "f") + "}") +
                arguments_chunk(0, R"({\"a\")") + arguments_chunk(0, ":1}") +
                delta_chunk("{" + begin_part(1, "g") + "}") + arguments_chunk(1, R"({\"a\":1})") +
                finish_chunk("tool_calls") + kDoneLine);
}

TEST(ChatStream, CutOffCallDoesNotSetTheReason) {
  Answered it(true);
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "call_0"}}});
  it.answer->end({.done_reason = "length"});
  EXPECT_TRUE(it.body().ends_with(finish_chunk("length") + kDoneLine)) << it.body();
}

TEST(ChatStream, ChoicesHaveAnIndexAndShareTheUsage) {
  Answered it(true, true, 2);
  Delta second = content("b");
  second.choice = 1;
  it.answer->delta(content("a"));
  it.answer->delta(second);
  it.answer->end({.choice = 1, .done_reason = "length", .n_prompt = 5, .n_generated = 3});
  EXPECT_FALSE(it.test.exchange.is_finished);
  it.answer->end({.choice = 0, .done_reason = "stop", .n_prompt = 5, .n_generated = 4});
  EXPECT_TRUE(it.test.exchange.is_finished);
  for (const char* part : {R"([{"index":0,"delta":{"role":"assistant","content":"a"})",
                           R"([{"index":1,"delta":{"role":"assistant","content":"b"})",
                           R"([{"index":1,"delta":{},"finish_reason":"length"}])",
                           R"("usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12)"})
    EXPECT_NE(it.body().find(part), std::string::npos) << part;
}

TEST(ChatObject, HasAllChoices) {
  Answered it(false, false, 2);
  Delta second = content("b");
  second.choice = 1;
  it.answer->delta(second);
  it.answer->delta(content("a"));
  it.answer->end({.choice = 0, .done_reason = "stop"});
  EXPECT_FALSE(it.test.exchange.is_finished);
  it.answer->end({.choice = 1, .done_reason = "length"});
  const Json choices = Json::parse(it.body())["choices"];
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0]["message"]["content"], "a");
  EXPECT_EQ(choices[1]["message"]["content"], "b");
  EXPECT_EQ(choices[1]["finish_reason"], "length");
}

TEST(ChatAnswer, LegacyCallsHaveTheOlderForm) {
  Answered whole(false, false, 1, true);
  whole.answer->delta(call_delta(0, "f"));
  whole.answer->end({.done_reason = "stop"});
  const Json choice = Json::parse(whole.body())["choices"][0];
  EXPECT_EQ(choice["message"]["function_call"],
            Json::parse(R"({"name":"f","arguments":"{\"a\":1}"})"));
  EXPECT_EQ(choice["finish_reason"], "function_call");
  Answered stream(true, false, 1, true);
  stream.answer->delta(joined(call_delta(0, "f"), call_delta(1, "g")));
  stream.answer->end({.done_reason = "stop"});
  EXPECT_EQ(stream.body(), delta_chunk(R"({"role":"assistant","content":"","function_call":)"
                                       R"({"name":"f","arguments":""}})") +
                               delta_chunk(R"({"function_call":{"arguments":"{\"a\":1}"}})") +
                               finish_chunk("function_call") + kDoneLine);
}

// The older form has room for only one call. A broken call is not complete, whatever follows.
TEST(ChatStream, BrokenLegacyCallDoesNotSetTheReason) {
  Answered it(true, false, 1, true);
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "call_0"}}});
  it.answer->delta(call_delta(1, "g"));
  it.answer->end({.done_reason = "stop"});
  EXPECT_TRUE(it.body().ends_with(finish_chunk("stop") + kDoneLine)) << it.body();
}

TEST(ChatStream, KeepsLogprobsOfDelayedText) {
  Answered it(true);
  Delta held;
  held.logprobs.push_back({"<", -1.5, "<"});
  it.answer->delta(held);
  EXPECT_EQ(it.body(), delta_chunk(R"({"role":"assistant","content":""})",
                                   R"(,"logprobs":{"content":[{"token":"\u003c","logprob":-1.5,)"
                                   R"("bytes":[60],"top_logprobs":[]}]})"));
}

TEST(ChatStream, SendsEventsAsComments) {
  Answered it(true);
  Delta delta = content("a");
  delta.notices = {R"({"event":"transition","text":"[transition] ctx512 -> ctx1024"})",
                   R"({"event":"compaction","text":"[compact]\nctx4096"})", R"({"event":"other"})",
                   "no JSON"};
  it.answer->delta(delta);
  Delta events;
  events.notices = {R"({"text":"[transition] x"})"};
  it.answer->delta(events);
  EXPECT_EQ(it.body(), ": [transition] ctx512 -> ctx1024\n\n: [compact] ctx4096\n\n" +
                           delta_chunk(R"({"role":"assistant","content":"a"})") +
                           ": [transition] x\n\n");
}

TEST(ChatStream, IsKeptAliveDuringPrefill) {
  Answered it(true);
  const auto after = [&](seconds time) {
    it.clock.time += time;
    it.answer->still_working();
  };
  after(seconds(9));
  EXPECT_FALSE(it.test.exchange.has_begun);
  after(seconds(1));
  EXPECT_TRUE(it.test.exchange.has_begun);
  EXPECT_EQ(it.body(), "");
  after(seconds(14));
  EXPECT_EQ(it.body(), "");
  after(seconds(1));
  EXPECT_EQ(it.body(), ": \n\n");
  after(seconds(14));
  EXPECT_EQ(it.body(), ": \n\n");
  after(seconds(1));
  EXPECT_EQ(it.body(), ": \n\n: \n\n");
  it.answer->delta(content("a"));
  after(seconds(14));
  EXPECT_EQ(it.body(), ": \n\n: \n\n" + delta_chunk(R"({"role":"assistant","content":"a"})"));
}

TEST(ChatObject, SendsNothingWhileItWaits) {
  Answered it(false);
  it.clock.time += seconds(100);
  it.answer->still_working();
  EXPECT_FALSE(it.test.exchange.has_begun);
}

TEST(ChatStream, EarlyErrorsAreTheAnswer) {
  Answered it(true);
  EXPECT_FALSE(it.answer->fail(500, "no"));
  EXPECT_FALSE(it.test.exchange.has_begun);
  Answered whole(false);
  whole.answer->delta(content("a"));
  EXPECT_FALSE(whole.answer->fail(500, "no"));
  EXPECT_FALSE(whole.test.exchange.has_begun);
}

TEST(ChatStream, LaterErrorsEndTheStream) {
  Answered it(true);
  it.answer->delta(content("a"));
  EXPECT_TRUE(it.answer->fail(500, "no\nmore"));
  EXPECT_TRUE(it.test.exchange.is_finished);
  EXPECT_EQ(it.body(), delta_chunk(R"({"role":"assistant","content":"a"})") +
                           R"(data: {"error":{"message":"no\nmore","type":"api_error",)"
                           "\"param\":null,\"code\":null}}\n\n");
  EXPECT_EQ(it.test.call.status(), 500);
  EXPECT_EQ(it.test.call.error(), "no\nmore");
}

TEST(ChatStream, ErrorsAfterTheHeadEndTheStream) {
  Answered it(true);
  it.clock.time += seconds(10);
  it.answer->still_working();
  EXPECT_TRUE(it.answer->fail(503, "busy"));
  EXPECT_TRUE(it.body().starts_with(R"(data: {"error":{"message":"busy")")) << it.body();
}

TEST(ChatStream, ReportsADisconnectedClient) {
  Answered it(true);
  it.test.exchange.n_writes_until_gone = 1;
  it.answer->delta(content("a"));
  EXPECT_FALSE(it.answer->delta(content("b")));
  EXPECT_FALSE(it.answer->end(kEnding));
  Answered early(true);
  early.test.exchange.n_writes_until_gone = 0;
  EXPECT_FALSE(early.answer->delta(content("a")));
  EXPECT_FALSE(early.answer->delta(content("b")));
  Answered whole(false);
  EXPECT_TRUE(whole.answer->delta(content("a")));
  whole.test.stop.request_stop();
  EXPECT_FALSE(whole.answer->delta(content("a")));
}

TEST(ChatAnswer, ReportsTheModelAndItsContext) {
  Answered it(true);
  it.answer->found("m:latest");
  it.answer->sized({.n_prompt = 10,
                    .n_prompt_full = 30,
                    .n_answer = 5,
                    .context = 1024,
                    .max_context = 2048,
                    .reason = "why"});
  it.answer->delta(content("a"));
  EXPECT_EQ(it.test.call.model(), "m:latest");
  EXPECT_EQ(it.test.exchange.headers.get("X-Billow-Context"), "1024");
  EXPECT_EQ(it.test.exchange.headers.get("X-Billow-Context-Reason"), "why");
  EXPECT_EQ(it.test.exchange.headers.get("X-Billow-Shortened"), "30->10");
}

}  // namespace
}  // namespace billow::api::openai

// Compares answers in Anthropic's form byte for byte.
#include <gtest/gtest.h>

#include "api/anthropic/messages_codec.h"
#include "api/openai/test_call.h"
#include "base/json.h"

namespace billow::api::anthropic {
namespace {

using openai::call_delta;
using openai::joined;
using openai::text_delta;
using openai::thinking_delta;
using std::chrono::seconds;

const MessageHead kHead{.id = "msg_7", .model = "m"};
const Ending kEnding{.done_reason = "stop", .n_prompt = 11, .n_cached = 4, .n_generated = 2};
constexpr const char* kUsage =
    R"("usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,)"
    R"("output_tokens":2})";

std::string event(const std::string& type, const std::string& rest) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + rest + "}\n\n";
}
std::string start(size_t n_prompt = 11) {
  return event("message_start",
               R"(,"message":{"id":"msg_7","type":"message","role":"assistant","model":"m",)"
               R"("content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":)" +
                   std::to_string(n_prompt) +
                   R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
                   R"("output_tokens":0}})");
}
std::string block_start(size_t index, const std::string& block) {
  return event("content_block_start",
               ",\"index\":" + std::to_string(index) + ",\"content_block\":" + block);
}
std::string block_delta(size_t index, const std::string& delta) {
  return event("content_block_delta",
               ",\"index\":" + std::to_string(index) + ",\"delta\":" + delta);
}
std::string block_stop(size_t index) {
  return event("content_block_stop", ",\"index\":" + std::to_string(index));
}
std::string finish(const std::string& reason, const std::string& sequence = "null") {
  return event("message_delta", R"(,"delta":{"stop_reason":")" + reason + R"(","stop_sequence":)" +
                                    sequence + "}," + kUsage) +
         event("message_stop", "");
}
std::string tool_block(const char* id, const char* name) {
  return R"({"type":"tool_use","id":")" + std::string(id) + R"(","name":")" + name +
         R"(","input":{}})";
}
constexpr const char* kTextBlock = R"({"type":"text","text":""})";
constexpr const char* kThinkingBlock = R"({"type":"thinking","thinking":"","signature":""})";
constexpr const char* kSigned = R"({"type":"signature_delta","signature":"YmlsbG93"})";

struct Answered {
  explicit Answered(bool stream, bool shows_thinking = true)
      : answer(message_answer(test.call, kHead,
                              MessagesRequest{.stream = stream, .shows_thinking = shows_thinking},
                              clock.now())) {
    answer->sized({.n_prompt = 11, .n_prompt_full = 11});
  }
  std::string body() const { return test.exchange.body(); }

  openai::TestCall test;
  openai::TestClock clock;
  std::unique_ptr<CallAnswer> answer;
};

TEST(MessageObject, KeepsTheOrderOfBlocks) {
  Answered it(false);
  it.answer->delta(thinking_delta("h"));
  it.answer->delta(joined(thinking_delta("m"), text_delta("Hel")));
  it.answer->delta(joined(text_delta("lo"), call_delta(0, "f")));
  it.answer->delta(call_delta(1, "g"));
  it.answer->delta(text_delta("!"));
  EXPECT_FALSE(it.test.exchange.has_begun);
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_EQ(it.test.exchange.status, 200);
  EXPECT_EQ(it.test.exchange.content_type, "application/json");
  EXPECT_EQ(it.body(),
            R"({"id":"msg_7","type":"message","role":"assistant","model":"m","content":[)"
            R"({"type":"thinking","thinking":"hm","signature":"YmlsbG93"},)"
            R"({"type":"text","text":"Hello"},)"
            R"({"type":"tool_use","id":"toolu_0","name":"f","input":{"a":1}},)"
            R"({"type":"tool_use","id":"toolu_1","name":"g","input":{"a":1}},)"
            R"({"type":"text","text":"!"}],"stop_reason":"tool_use","stop_sequence":null,)" +
                std::string(kUsage) + "}\n");
}

TEST(MessageObject, EmptyAnswerHasNoBlocks) {
  Answered it(false);
  it.answer->end(kEnding);
  EXPECT_NE(it.body().find(R"("content":[],"stop_reason":"end_turn")"), std::string::npos);
}

TEST(MessageObject, ReportsStopReasons) {
  const auto reason = [](const Ending& ending) {
    Answered it(false);
    it.answer->delta(text_delta("a"));
    it.answer->end(ending);
    const Json message = Json::parse(it.body());
    return message["stop_reason"].dump() + " " + message["stop_sequence"].dump();
  };
  EXPECT_EQ(reason({.done_reason = "stop"}), R"("end_turn" null)");
  EXPECT_EQ(reason({.done_reason = "length"}), R"("max_tokens" null)");
  EXPECT_EQ(reason({.done_reason = "repeats"}), R"("max_tokens" null)");
  EXPECT_EQ(reason({.done_reason = "stop", .stop_string = "END"}), R"("stop_sequence" "END")");
}

TEST(MessageObject, DropsACallThatWasCutOff) {
  Answered it(false);
  it.answer->delta({.events = {{EventKind::kText, 0, "a"},
                               {EventKind::kCallBegin, 0, "f", "call_0"},
                               {EventKind::kCallArguments, 0, R"({"a")"}}});
  it.answer->end({.done_reason = "length"});
  EXPECT_NE(it.body().find(R"("content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens")"),
            std::string::npos)
      << it.body();
}

Delta call_with(const char* arguments) {
  return {.events = {{EventKind::kCallBegin, 0, "f", "call_0"},
                     {EventKind::kCallArguments, 0, arguments},
                     {EventKind::kCallEnd, 0}}};
}

TEST(MessageObject, DropsACallWhoseArgumentsAreNoObject) {
  for (const char* arguments : {"{\"a\": 1 oops", "[1]", "\"a\""}) {
    Answered it(false);
    it.answer->delta(call_with(arguments));
    it.answer->end(kEnding);
    EXPECT_NE(it.body().find(R"("content":[],"stop_reason":"end_turn")"), std::string::npos)
        << it.body();
  }
  Answered empty(false);
  empty.answer->delta(call_with(""));
  empty.answer->end(kEnding);
  EXPECT_NE(empty.body().find(R"("input":{}}],"stop_reason":"tool_use")"), std::string::npos);
}

TEST(MessageStream, BrokenArgumentsDoNotSetTheReason) {
  Answered it(true);
  it.answer->delta(call_with("{\"a\": 1 oops"));
  it.answer->end(kEnding);
  EXPECT_TRUE(it.body().ends_with(finish("end_turn"))) << it.body();
  Answered both(true);
  both.answer->delta(call_with("{}"));
  both.answer->delta(call_with("oops"));
  both.answer->end(kEnding);
  EXPECT_TRUE(both.body().ends_with(finish("tool_use"))) << both.body();
}

TEST(MessageObject, Restarts) {
  Answered it(false);
  EXPECT_TRUE(it.answer->holds_back());
  it.answer->delta(text_delta("gone"));
  it.answer->restart(0);
  it.answer->delta(text_delta("here"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body().find("gone"), std::string::npos);
  EXPECT_NE(it.body().find("here"), std::string::npos);
}

TEST(MessageObject, CanHideThinking) {
  Answered it(false, false);
  it.answer->delta(thinking_delta("hm"));
  it.answer->end(kEnding);
  EXPECT_NE(it.body().find(R"([{"type":"thinking","thinking":"","signature":"YmlsbG93"}])"),
            std::string::npos)
      << it.body();
}

TEST(MessageStream, HasExactBytes) {
  Answered it(true);
  EXPECT_TRUE(it.answer->delta(thinking_delta("Let")));
  EXPECT_EQ(it.test.exchange.content_type, "text/event-stream");
  EXPECT_EQ(it.test.exchange.writes.size(), 1u);
  it.answer->delta(joined(thinking_delta(" me"), text_delta("Hel")));
  it.answer->delta(joined(text_delta("l"), text_delta("o")));
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "call_0"}}});
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, R"({"a")"}}});
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, ":1}"}, {EventKind::kCallEnd, 0}}});
  it.answer->delta(call_delta(1, "g"));
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_TRUE(it.test.exchange.is_finished);
  const auto json_delta = [](size_t index, const char* text) {
    return block_delta(
        index, R"({"type":"input_json_delta","partial_json":")" + std::string(text) + "\"}");
  };
  EXPECT_EQ(it.body(), start() + block_start(0, kThinkingBlock) +
                           block_delta(0, R"({"type":"thinking_delta","thinking":"Let"})") +
                           block_delta(0, R"({"type":"thinking_delta","thinking":" me"})") +
                           block_delta(0, kSigned) + block_stop(0) + block_start(1, kTextBlock) +
                           block_delta(1, R"({"type":"text_delta","text":"Hel"})") +
                           block_delta(1, R"({"type":"text_delta","text":"lo"})") + block_stop(1) +
                           block_start(2, tool_block("toolu_0", "f")) + json_delta(2, R"({\"a\")") +
                           json_delta(2, ":1}") + block_stop(2) +
                           block_start(3, tool_block("toolu_1", "g")) +
                           json_delta(3, R"({\"a\":1})") + block_stop(3) + finish("tool_use"));
}

TEST(MessageStream, AnEmptyAnswerHasNoBlocks) {
  Answered it(true);
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), start() + finish("end_turn"));
}

TEST(MessageStream, ReportsTheStopSequence) {
  Answered it(true);
  Ending ending = kEnding;
  ending.stop_string = "END";
  it.answer->end(ending);
  EXPECT_EQ(it.body(), start() + finish("stop_sequence", "\"END\""));
}

TEST(MessageStream, CanHideThinking) {
  Answered it(true, false);
  it.answer->delta(joined(thinking_delta("hm"), text_delta("a")));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(), start() + block_start(0, kThinkingBlock) + block_delta(0, kSigned) +
                           block_stop(0) + block_start(1, kTextBlock) +
                           block_delta(1, R"({"type":"text_delta","text":"a"})") + block_stop(1) +
                           finish("end_turn"));
}

TEST(MessageStream, ClosesACallThatWasCutOff) {
  Answered it(true);
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "functions.f:0"}}});
  it.answer->end({.done_reason = "length", .n_prompt = 11, .n_cached = 4, .n_generated = 2});
  EXPECT_EQ(it.body(), start() + block_start(0, tool_block("functions.f:0", "f")) + block_stop(0) +
                           finish("max_tokens"));
}

TEST(MessageStream, IsKeptAliveDuringPrefill) {
  Answered it(true);
  const auto after = [&](seconds time) {
    it.clock.time += time;
    it.answer->still_working();
  };
  const std::string ping = event("ping", "");
  after(seconds(9));
  EXPECT_FALSE(it.test.exchange.has_begun);
  after(seconds(1));
  EXPECT_EQ(it.body(), start());
  after(seconds(14));
  EXPECT_EQ(it.body(), start());
  after(seconds(1));
  EXPECT_EQ(it.body(), start() + ping);
  it.answer->delta(text_delta("a"));
  after(seconds(14));
  EXPECT_TRUE(it.body().ends_with(block_start(0, kTextBlock) +
                                  block_delta(0, R"({"type":"text_delta","text":"a"})")))
      << it.body();
}

TEST(MessageStream, IsKeptAliveDuringThinkingThatIsNotShown) {
  Answered it(true, false);
  it.answer->delta(thinking_delta("a"));
  const std::string begun = it.body();
  it.clock.time += seconds(14);
  it.answer->delta(thinking_delta("b"));
  EXPECT_EQ(it.body(), begun);
  it.clock.time += seconds(1);
  it.answer->delta(thinking_delta("c"));
  EXPECT_EQ(it.body(), begun + event("ping", ""));
}

TEST(MessageStream, ErrorsEndAStreamThatHasBegun) {
  Answered early(true);
  EXPECT_FALSE(early.answer->fail(500, "no"));
  EXPECT_FALSE(early.test.exchange.has_begun);
  Answered it(true);
  it.answer->delta(text_delta("a"));
  EXPECT_TRUE(it.answer->fail(503, "no\nmore"));
  EXPECT_TRUE(it.test.exchange.is_finished);
  EXPECT_TRUE(it.body().ends_with(event(
      "error", R"(,"error":{"type":"overloaded_error","message":"no\nmore"},"request_id":"id")")))
      << it.body();
  EXPECT_EQ(it.test.call.status(), 503);
}

TEST(MessageStream, ReportsADisconnectedClient) {
  Answered it(true);
  it.test.exchange.n_writes_until_gone = 1;
  it.answer->delta(text_delta("a"));
  EXPECT_FALSE(it.answer->delta(text_delta("b")));
  EXPECT_FALSE(it.answer->end(kEnding));
  Answered whole(false);
  whole.test.stop.request_stop();
  EXPECT_FALSE(whole.answer->delta(text_delta("a")));
}

}  // namespace
}  // namespace billow::api::anthropic

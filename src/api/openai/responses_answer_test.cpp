// Compares responses of /v1/responses byte by byte, without the ids of items.
#include <gtest/gtest.h>

#include <regex>

#include "api/fields.h"
#include "api/openai/responses_answer.h"
#include "api/openai/responses_routes.h"
#include "api/openai/test_call.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

using std::chrono::seconds;

const AnswerHead kHead{.id = "resp_7", .created = 1767322000, .model = "m"};
const Ending kEnding{.done_reason = "stop", .n_prompt = 11, .n_cached = 4, .n_generated = 2};
constexpr const char* kUsage =
    R"({"input_tokens":11,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":2,)"
    R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":13})";

// Replaces random ids like "msg_0a..." by "msg_*".
std::string masked(const std::string& text) {
  static const std::regex kId(R"((msg|rs|fc|ctc|lsh)_[a-z0-9]{24})");
  return std::regex_replace(text, kId, "$1_*");
}

std::string response(const std::string& status, const std::string& completed_at,
                     const std::string& output, const std::string& usage,
                     const std::string& more = "") {
  return R"({"id":"resp_7","object":"response","created_at":1767322000,"status":")" + status +
         R"(","background":false,"completed_at":)" + completed_at +
         R"(,"error":null,"incomplete_details":)" +
         (status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null") +
         R"(,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"m",)"
         R"("output":)" +
         output +
         R"(,"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,)"
         R"("reasoning":{"effort":null,"summary":null},"safety_identifier":null,)"
         R"("service_tier":"default","store":true,"temperature":1,)"
         R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,)"
         R"("top_p":1,"truncation":"disabled","usage":)" +
         usage + R"(,"user":null,"metadata":{})" + more + "}";
}
std::string message(const std::string& text, const std::string& status = "completed") {
  return R"({"id":"msg_*","type":"message","status":")" + status +
         R"(","role":"assistant","content":[{"type":"output_text","text":")" + text +
         R"(","annotations":[],"logprobs":[]}]})";
}

struct Answered {
  explicit Answered(const std::string& fields = "") {
    request = decode_response(R"({"model":"m","input":"Hi")" + fields + "}", store);
    answer = response_answer(
        test.call, kHead, request, [this](const Json& response, const Json&) { stored = response; },
        clock.now());
  }
  std::string body() const { return masked(test.exchange.body()); }
  // Returns the types of the events, and checks their sequence numbers.
  std::string types() const {
    std::string types;
    size_t n = 0;
    const std::string text = test.exchange.body();
    for (size_t at = text.find("data: "); at != std::string::npos;
         at = text.find("data: ", at + 1)) {
      const Json event = Json::parse(text.substr(at + 6, text.find('\n', at) - at - 6));
      EXPECT_EQ(event["sequence_number"], n++);
      types += event["type"].get<std::string>().substr(9) + " ";
    }
    return types;
  }

  TestCall test;
  TestClock clock;
  ResponseStore store;
  ResponseRequest request;
  Json stored;
  std::unique_ptr<CallAnswer> answer;
};

constexpr const char* kStream = R"(,"stream":true)";

TEST(ResponseObject, HasTheWholeText) {
  Answered it;
  it.answer->delta(text_delta("Hel"));
  it.clock.time += seconds(3);
  it.answer->delta(text_delta("lo"));
  EXPECT_FALSE(it.test.exchange.has_begun);
  EXPECT_TRUE(it.answer->holds_back());
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_EQ(it.test.exchange.content_type, "application/json");
  EXPECT_EQ(it.body(),
            response("completed", "1767322003", "[" + message("Hello") + "]", kUsage) + "\n");
  EXPECT_EQ(to_text(it.stored) + "\n", it.test.exchange.body());
}

TEST(ResponseObject, KeepsTheOrderOfItems) {
  Answered it;
  it.answer->delta(joined(thinking_delta("hm"), text_delta("a")));
  it.answer->delta(call_delta(0, "f"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(),
            response("completed", "1767322000",
                     R"([{"id":"rs_*","type":"reasoning","status":"completed","summary":[],)"
                     R"("content":[{"type":"reasoning_text","text":"hm"}]},)" +
                         message("a") +
                         R"(,{"id":"fc_*","type":"function_call","status":"completed",)"
                         R"("call_id":"call_0","name":"f","arguments":"{\"a\":1}"}])",
                     kUsage) +
                "\n");
}

TEST(ResponseObject, IsIncompleteIfCutOff) {
  Answered it;
  it.answer->delta(text_delta("a"));
  it.answer->delta(
      {.events = {{EventKind::kCallBegin, 0, "f", "call_0"}, {EventKind::kCallArguments, 0, "{"}}});
  it.answer->end({.done_reason = "length", .n_prompt = 11, .n_cached = 4, .n_generated = 2});
  EXPECT_EQ(it.body(), response("incomplete", "null", "[" + message("a") + "]", kUsage) + "\n");
}

TEST(ResponseObject, IsIncompleteIfATokenRepeats) {
  Answered it;
  it.answer->delta(text_delta("a"));
  it.answer->end({.done_reason = "repeats", .n_prompt = 11, .n_cached = 4, .n_generated = 2});
  EXPECT_EQ(it.stored["status"], "incomplete");
  EXPECT_EQ(it.stored["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(ResponseObject, Restarts) {
  Answered it;
  it.answer->delta(text_delta("gone"));
  it.answer->restart(0);
  it.answer->delta(text_delta("here"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.body(),
            response("completed", "1767322000", "[" + message("here") + "]", kUsage) + "\n");
}

TEST(ResponseObject, IsNotStoredIfTheRequestForbidsIt) {
  Answered it(R"(,"store":false)");
  it.answer->end(kEnding);
  EXPECT_TRUE(it.stored.is_null());
}

// Returns the text of an event. `rest` follows the type and the number.
std::string event(size_t number, const std::string& type, const std::string& rest) {
  return "event: response." + type + "\ndata: {\"type\":\"response." + type +
         "\",\"sequence_number\":" + std::to_string(number) + "," + rest + "}\n\n";
}

TEST(ResponseStream, HasExactBytes) {
  Answered it(kStream);
  EXPECT_TRUE(it.answer->delta(text_delta("Hel")));
  EXPECT_EQ(it.test.exchange.content_type, "text/event-stream");
  it.answer->delta(text_delta("lo"));
  EXPECT_TRUE(it.answer->end(kEnding));
  EXPECT_TRUE(it.test.exchange.is_finished);
  const std::string begun = R"("response":)" + response("in_progress", "null", "[]", "null");
  const std::string place = R"("item_id":"msg_*","output_index":0,"content_index":0)";
  const std::string part = R"("part":{"type":"output_text","text":")";
  const std::string part_end = R"(","annotations":[],"logprobs":[]})";
  EXPECT_EQ(
      it.body(),
      event(0, "created", begun) + event(1, "in_progress", begun) +
          event(2, "output_item.added",
                R"("output_index":0,"item":{"id":"msg_*","type":"message","status":"in_progress",)"
                R"("role":"assistant","content":[]})") +
          event(3, "content_part.added", place + "," + part + part_end) +
          event(4, "output_text.delta", place + R"(,"delta":"Hel","logprobs":[])") +
          event(5, "output_text.delta", place + R"(,"delta":"lo","logprobs":[])") +
          event(6, "output_text.done", place + R"(,"text":"Hello","logprobs":[])") +
          event(7, "content_part.done", place + "," + part + "Hello" + part_end) +
          event(8, "output_item.done", R"("output_index":0,"item":)" + message("Hello")) +
          event(9, "completed",
                R"("response":)" +
                    response("completed", "1767322000", "[" + message("Hello") + "]", kUsage)));
}

TEST(ResponseStream, ThinkingIsContentOrASummary) {
  Answered content(kStream);
  content.answer->delta(thinking_delta("hm"));
  content.answer->end(kEnding);
  EXPECT_EQ(content.types(),
            "created in_progress output_item.added content_part.added reasoning_text.delta "
            "reasoning_text.done content_part.done output_item.done completed ");
  Answered summary(R"(,"stream":true,"reasoning":{"summary":"auto"})");
  summary.answer->delta(thinking_delta("hm"));
  summary.answer->end(kEnding);
  EXPECT_EQ(summary.types(),
            "created in_progress output_item.added reasoning_summary_part.added "
            "reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done "
            "output_item.done completed ");
  EXPECT_NE(
      summary.body().find(R"("item_id":"rs_*","output_index":0,"summary_index":0,"delta":"hm")"),
      std::string::npos);
  EXPECT_NE(summary.body().find(R"("summary":[{"type":"summary_text","text":"hm"}])"),
            std::string::npos);
}

TEST(ResponseStream, StreamsArguments) {
  Answered it(kStream);
  it.answer->delta(text_delta("a"));
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "f", "call_0"},
                               {EventKind::kCallArguments, 0, R"({"a")"}}});
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, ":1}"}, {EventKind::kCallEnd, 0}}});
  it.answer->end(kEnding);
  const std::string place = R"("item_id":"fc_*","output_index":1,)";
  for (const std::string& part :
       {event(8, "output_item.added",
              R"("output_index":1,"item":{"id":"fc_*","type":"function_call",)"
              R"("status":"in_progress","call_id":"call_0","name":"f","arguments":""})"),
        event(9, "function_call_arguments.delta", place + R"("delta":"{\"a\"")"),
        event(10, "function_call_arguments.delta", place + R"("delta":":1}")"),
        event(11, "function_call_arguments.done", place + R"("arguments":"{\"a\":1}")"),
        event(12, "output_item.done",
              R"("output_index":1,"item":{"id":"fc_*","type":"function_call",)"
              R"("status":"completed","call_id":"call_0","name":"f","arguments":"{\"a\":1}"})")})
    EXPECT_NE(it.body().find(part), std::string::npos) << part << it.body();
}

// Deltas with a call that is broken in its arguments, then what follows.
Delta broken_call() {
  return {.events = {{EventKind::kCallBegin, 0, "f", "call_0"},
                     {EventKind::kCallArguments, 0, "{\"a\": 1 oops"}}};
}

TEST(ResponseObject, DropsABrokenCall) {
  for (const bool has_text : {true, false}) {
    Answered it;
    it.answer->delta(broken_call());
    it.answer->delta(has_text ? text_delta("bye") : call_delta(1, "g"));
    it.answer->end(kEnding);
    ASSERT_EQ(it.stored["output"].size(), 1u) << it.body();
    EXPECT_EQ(it.stored["output"][0]["type"], has_text ? "message" : "function_call");
    if (!has_text) {
      EXPECT_EQ(it.stored["output"][0]["name"], "g");
    }
  }
}

TEST(ResponseStream, BrokenCallIsNeverDone) {
  Answered it(kStream);
  it.answer->delta(broken_call());
  it.answer->delta(text_delta("bye"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.types(),
            "created in_progress output_item.added function_call_arguments.delta "
            "output_item.added content_part.added output_text.delta output_text.done "
            "content_part.done output_item.done completed ");
  EXPECT_NE(it.body().find(R"("output_index":1,"item":{"id":"msg_*")"), std::string::npos)
      << "the place of the call stays empty: " << it.body();
  EXPECT_EQ(it.stored["output"].size(), 1u);
}

TEST(ResponseStream, CallsHaveTheFormOfTheirTool) {
  Answered it(R"(,"stream":true,"tools":[{"type":"custom","name":"patch"},{"type":"local_shell"},)"
              R"({"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]}])");
  const auto call = [&](size_t index, const char* name, const char* arguments) {
    it.answer->delta({.events = {{EventKind::kCallBegin, index, name, "call_x"},
                                 {EventKind::kCallArguments, index, arguments},
                                 {EventKind::kCallEnd, index}}});
  };
  call(0, "patch", R"({"input":"+a\n"})");
  call(1, "local_shell", R"({"command":["ls"],"timeout_ms":5})");
  call(2, "n__g", "{}");
  it.answer->end(kEnding);
  EXPECT_EQ(it.types(),
            "created in_progress output_item.added custom_tool_call_input.delta "
            "custom_tool_call_input.done output_item.done output_item.added output_item.done "
            "output_item.added function_call_arguments.delta function_call_arguments.done "
            "output_item.done completed ");
  const Json output = it.stored["output"];
  EXPECT_EQ(output[0]["input"], "+a\n");
  EXPECT_EQ(output[0]["type"], "custom_tool_call");
  EXPECT_EQ(output[1]["type"], "local_shell_call");
  EXPECT_EQ(output[1]["action"],
            Json::parse(R"({"type":"exec","command":["ls"],"env":{},"timeout_ms":5})"));
  EXPECT_EQ(output[2]["name"], "g");
  EXPECT_EQ(output[2]["namespace"], "n");
}

TEST(ResponseStream, SendsLogprobsWithTheirText) {
  Answered it(R"(,"stream":true,"top_logprobs":1)");
  Delta delta = text_delta("a");
  delta.logprobs.push_back({"a", -0.5, "a", {{"a", -0.5, "a"}}});
  it.answer->delta(delta);
  it.answer->end(kEnding);
  EXPECT_NE(it.body().find(R"("delta":"a","logprobs":[{"token":"a","bytes":[97],"logprob":-0.5,)"
                           R"("top_logprobs":[{"token":"a","bytes":[97],"logprob":-0.5}]}])"),
            std::string::npos)
      << it.body();
}

// Thinking and text may come together, and the first tokens of a text may be held back.
TEST(Response, LogprobsAreThoseOfTheTokensOfTheText) {
  const auto delta_of = [](std::vector<Event> events, const std::vector<std::string>& tokens) {
    Delta delta{.events = std::move(events)};
    for (const std::string& token : tokens) delta.logprobs.push_back({token, -1.0, token, {}});
    return delta;
  };
  const std::vector<std::vector<Delta>> answers = {
      {delta_of({{EventKind::kThinking, 0, "a hm"}, {EventKind::kText, 0, "a b <c"}},
                {"<think>", "a", " hm", "</think>", "a", " b", " <", "c", ""})},
      {delta_of({}, {"<think>"}), delta_of({{EventKind::kThinking, 0, "a"}}, {"a"}),
       delta_of({{EventKind::kThinking, 0, " hm"}}, {" hm"}), delta_of({}, {"</think>"}),
       delta_of({{EventKind::kText, 0, "a b"}}, {"a", " b"}), delta_of({}, {" <"}),
       delta_of({{EventKind::kText, 0, " <c"}}, {"c"})}};
  for (const std::vector<Delta>& deltas : answers) {
    Answered it(R"(,"top_logprobs":1,"include":["message.output_text.logprobs"])");
    for (const Delta& delta : deltas) it.answer->delta(delta);
    it.answer->end(kEnding);
    const Json output = Json::parse(it.body())["output"];
    std::string tokens;
    for (const Json& entry : output.back()["content"][0]["logprobs"])
      tokens += entry["token"].get<std::string>() + "|";
    EXPECT_EQ(tokens, "a| b| <|c|") << output;
  }
}

TEST(ResponseStream, IsKeptAliveDuringPrefill) {
  Answered it(kStream);
  it.clock.time += seconds(10);
  it.answer->still_working();
  EXPECT_EQ(it.types(), "created in_progress ");
  it.clock.time += seconds(15);
  it.answer->still_working();
  EXPECT_TRUE(it.body().ends_with("\n\n: \n\n"));
  it.answer->end(kEnding);
  EXPECT_EQ(it.types(), "created in_progress completed ");
}

TEST(ResponseAnswers, ContainNoCommandWithoutAValidAction) {
  for (const char* arguments : {"{\"command\": ls}", "[\"ls\"]", ""}) {
    Answered it(R"(,"tools":[{"type":"local_shell"}])");
    it.answer->delta({.events = {{EventKind::kCallBegin, 0, "local_shell", "call_1"},
                                 {EventKind::kCallArguments, 0, arguments},
                                 {EventKind::kCallEnd}}});
    it.answer->end(kEnding);
    EXPECT_EQ(Json::parse(it.body())["output"].size(), 0u) << arguments;
  }
}

TEST(ResponseStream, IsKeptAliveDuringACallThatIsShownWhole) {
  Answered it(R"(,"stream":true,"tools":[{"type":"local_shell"}])");
  it.answer->delta({.events = {{EventKind::kCallBegin, 0, "local_shell", "call_1"}}});
  const std::string begun = it.body();
  it.clock.time += seconds(14);
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, "{\"command\":"}}});
  EXPECT_EQ(it.body(), begun);
  it.clock.time += seconds(1);
  it.answer->delta({.events = {{EventKind::kCallArguments, 0, "[\"ls\"]}"}}});
  EXPECT_EQ(it.body(), begun + ": \n\n");
}

TEST(ResponseStream, ErrorsEndAStreamThatHasBegun) {
  Answered early(kStream);
  EXPECT_FALSE(early.answer->fail(500, "no"));
  Answered it(kStream);
  it.answer->delta(text_delta("a"));
  EXPECT_TRUE(it.answer->fail(500, "no"));
  EXPECT_TRUE(it.types().ends_with("failed "));
  EXPECT_NE(it.body().find(R"("status":"failed","background":false,"completed_at":null,)"
                           R"("error":{"code":"server_error","message":"no"})"),
            std::string::npos);
  EXPECT_EQ(it.test.call.status(), 500);
}

// Calls the routes.
struct Fixture {
  // Returns the body, or the status and the text of an error.
  std::string answer(http::Method method, const std::string& pattern, const std::string& body,
                     const std::string& id = "", http::Parameters query = {}) {
    http::Request request = request_with(body);
    request.parameters["id"] = id;
    request.query = std::move(query);
    TestCall test{std::move(request)};
    for (const Route& route : response_routes(generator, store)) {
      if (route.pattern != pattern || route.methods.front() != method) continue;
      try {
        route.handler(test.call);
        head = test.exchange.headers;
        return test.exchange.body();
      } catch (const http::StatusError& error) {
        return std::to_string(error.status()) + " " + error.what();
      }
    }
    return "no route";
  }
  Json post(const std::string& body) {
    return Json::parse(answer(http::Method::kPost, "/v1/responses", body));
  }
  std::string get(const std::string& pattern, const std::string& id, http::Parameters query = {}) {
    return answer(http::Method::kGet, pattern, "", id, std::move(query));
  }

  ScriptedGenerator generator;
  std::shared_ptr<ResponseStores> store = std::make_shared<ResponseStores>();
  http::Headers head;
};

constexpr const char* kOne = "/v1/responses/:id";

TEST(ResponseRoutes, ContinuesAConversationById) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.delta(text_delta("Hello"));
    sink.end(kEnding);
  };
  const Json first = fixture.post(R"({"model":"m","input":"Hi"})");
  const auto id = first["id"].get<std::string>();
  EXPECT_EQ(first["output"][0]["content"][0]["text"], "Hello");
  const Json second =
      fixture.post(R"({"model":"m","input":"And?","previous_response_id":")" + id + "\"}");
  const auto& messages = fixture.generator.request.messages;
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].text() + messages[1].text() + messages[2].text(), "HiHelloAnd?");
  EXPECT_EQ(second["previous_response_id"], id);

  EXPECT_EQ(Json::parse(fixture.get(kOne, id)), first);
  const auto second_id = second["id"].get<std::string>();
  const Json items = Json::parse(
      fixture.get("/v1/responses/:id/input_items", second_id, {{"order", "asc"}, {"limit", "2"}}));
  ASSERT_EQ(items["data"].size(), 2u);
  EXPECT_EQ(items["has_more"], true);
  EXPECT_EQ(items["data"][1], first["output"][0]);
  EXPECT_EQ(items["last_id"], first["output"][0]["id"]);
  const Json rest =
      Json::parse(fixture.get("/v1/responses/:id/input_items", second_id,
                              {{"order", "asc"}, {"after", items["last_id"].get<std::string>()}}));
  ASSERT_EQ(rest["data"].size(), 1u);
  EXPECT_EQ(rest["data"][0]["content"][0]["text"], "And?");

  EXPECT_EQ(fixture.answer(http::Method::kDelete, kOne, "", id),
            R"({"id":")" + id + "\",\"object\":\"response\",\"deleted\":true}\n");
  EXPECT_EQ(fixture.get(kOne, id),
            "404 response '" + id + "' not found: it was never stored, or is no longer stored");
  EXPECT_EQ(fixture.get(kOne, second_id, {{"stream", "true"}}),
            "400 a stored response cannot be streamed");
}

TEST(ResponseRoutes, UnstoredResponseIsNotFound) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) { sink.end(kEnding); };
  const Json response = fixture.post(R"({"model":"m","input":"Hi","store":false})");
  EXPECT_TRUE(fixture.get(kOne, response["id"].get<std::string>()).starts_with("404 "));
  EXPECT_EQ(response["store"], false);
}

TEST(ResponseRoutes, NamesIgnoredTools) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) { sink.end(kEnding); };
  fixture.post(R"({"model":"m","input":"Hi","tools":[{"type":"web_search"}]})");
  EXPECT_EQ(fixture.head.get("X-Billow-Tools-Left-Out"), "web_search");
}

TEST(ResponseRoutes, CountsTokens) {
  Fixture fixture;
  fixture.generator.script = [](Sink& sink) {
    sink.sized({.n_prompt = 10, .n_prompt_full = 12});
    sink.rendered("text", 0);
  };
  EXPECT_EQ(fixture.answer(http::Method::kPost, "/v1/responses/input_tokens",
                           R"({"model":"m","input":"Hi"})"),
            "{\"object\":\"response.input_tokens\",\"input_tokens\":12}\n");
  EXPECT_TRUE(fixture.generator.request.render_only);
}

}  // namespace
}  // namespace billow::api::openai

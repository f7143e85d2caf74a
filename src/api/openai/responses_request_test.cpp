// Tests the decoder of requests for /v1/responses.
#include <gtest/gtest.h>

#include "api/openai/refusal.h"
#include "api/openai/responses_codec.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

std::string with(const std::string& fields) {
  return R"({"model":"m","input":"Hi")" + (fields.empty() ? "" : "," + fields) + "}";
}
std::string with_input(const std::string& items) {
  return R"({"model":"m","input":[)" + items + "]}";
}
ResponseRequest decoded(const std::string& body) {
  ResponseStore store;
  return decode_response(body, store);
}
GenerationRequest generation(const std::string& fields) { return decoded(with(fields)).generation; }
std::vector<Message> messages_of(const std::string& items) {
  return decoded(with_input(items)).generation.messages;
}
std::string refused(const std::string& body) {
  ResponseStore store;
  return refusal([&](const std::string& text) { decode_response(text, store); }, body);
}
std::string refused_item(const std::string& item) { return refused(with_input(item)); }

std::string script_of(const std::vector<Message>& messages) {
  std::string script;
  for (const Message& message : messages) script += message.role + ": " + message.text() + "\n";
  return script;
}

TEST(ResponseRequest, MinimalRequestHasDefaults) {
  const ResponseRequest request = decoded(with(""));
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.stores);
  EXPECT_FALSE(request.shows_summary);
  EXPECT_TRUE(request.unknown_fields.empty());
  const GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.kind, GenerationKind::kChat);
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(script_of(generation.messages), "user: Hi\n");
  EXPECT_EQ(generation.options.sampling, (scheduler::Sampling{.temperature = 1.0, .top_p = 1.0}));
  EXPECT_EQ(generation.options.num_predict, std::nullopt);
  EXPECT_EQ(generation.think.enabled, std::nullopt);
  EXPECT_FALSE(generation.truncate);
  EXPECT_FALSE(generation.logprobs);
  ASSERT_EQ(request.input.size(), 1u);
  EXPECT_TRUE(request.input[0]["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(request.input[0]["content"], Json::parse(R"([{"type":"input_text","text":"Hi"}])"));
}

TEST(ResponseRequest, FieldsBecomeOptions) {
  const ResponseRequest request = decoded(with(
      R"("max_output_tokens":7,"temperature":0.5,"top_p":0.25,"seed":3,"stop":"END","stream":true,)"
      R"("store":false,"truncation":"auto","top_logprobs":2,"frob":1,"keep_alive":5)"));
  EXPECT_EQ(request.generation.options.num_predict, 7);
  EXPECT_EQ(request.generation.options.sampling,
            (scheduler::Sampling{.temperature = 0.5, .top_p = 0.25, .seed = 3}));
  EXPECT_EQ(request.generation.options.stop, std::vector<std::string>{"END"});
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.stores);
  EXPECT_TRUE(request.generation.truncate);
  EXPECT_TRUE(request.generation.logprobs);
  EXPECT_EQ(request.generation.top_logprobs, 2);
  EXPECT_EQ(request.unknown_fields, std::vector<std::string>{"frob"});
  EXPECT_TRUE(decoded(with(R"("include":["message.output_text.logprobs"])")).shows_logprobs);
  EXPECT_FALSE(decoded(with(R"("include":["reasoning.encrypted_content"])")).shows_logprobs);
}

TEST(ResponseRequest, ReadsReasoning) {
  struct Case {
    const char* fields;
    std::optional<bool> enabled;
    const char* level;
    bool summary;
  };
  const Case kCases[] = {
      {R"("reasoning":{"effort":"low"})", std::nullopt, "low", false},
      {R"("reasoning":{"effort":"none"})", false, "", false},
      {R"("reasoning":{"effort":"high","summary":"auto"})", std::nullopt, "high", true},
      {R"("reasoning":{"effort":null,"summary":null})", std::nullopt, "", false},
  };
  for (const Case& one : kCases) {
    const ResponseRequest request = decoded(with(one.fields));
    EXPECT_EQ(request.generation.think.enabled, one.enabled) << one.fields;
    EXPECT_EQ(request.generation.think.level, one.level);
    EXPECT_EQ(request.shows_summary, one.summary);
  }
}

TEST(ResponseRequest, ReadsFormatAsAGrammar) {
  const constraint::Grammar expected{.kind = constraint::GrammarKind::kJsonSchema,
                                     .text = R"({"type":"object"})"};
  EXPECT_EQ(generation(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,)"
                       R"("schema":{"type":"object"}},"verbosity":"low"})")
                .grammar,
            expected);
  EXPECT_EQ(generation(R"("text":{"format":{"type":"text"}})").grammar, std::nullopt);
  EXPECT_EQ(generation(R"("text":{"format":{"type":"json_object"}})").grammar,
            constraint::Grammar{.kind = constraint::GrammarKind::kJsonObject});
}

TEST(ResponseRequest, RefusesUnsupportedFieldsByName) {
  const std::pair<std::string, const char*> kRefusals[] = {
      {R"({"input":"Hi"})", "model is required"},
      {R"({"model":"m"})", "input is required"},
      {R"({"model":"m","input":[]})", "input is required"},
      {R"({"model":"m","input":5})", "field \"input\" must be a string or an array of items"},
      {with(R"("background":true)"), "field \"background\" is not supported: use a stream"},
      {with(R"("conversation":"c")"),
       "field \"conversation\" is not supported: use previous_response_id, or send the items"},
      {with(R"("prompt":{"id":"p"})"),
       "field \"prompt\" is not supported: send its text as instructions and input"},
      {with(R"("truncation":"some")"),
       "field \"truncation\" must be \"auto\" or \"disabled\", not \"some\""},
      {with(R"("previous_response_id":"resp_x")"),
       "response \"resp_x\" not found: it was never stored, or is no longer stored"},
      {with_input(R"({"type":"item_reference","id":"i"})"),
       "item \"i\" not found: it was never stored, or is no longer stored"},
      {with(R"("tools":[{"type":"file_search"}])"),
       "field \"tools\" has a tool of type \"file_search\", which is not supported"},
      {with(R"("tools":[{"type":"function"}])"), "field \"tools\" has a tool without a name"},
      {with(R"("tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}])"),
       "field \"tools\" has two tools with the name \"f\""},
      {with(R"("tool_choice":{"type":"web_search"})"),
       "field \"tool_choice.type\" is \"web_search\", which is not supported"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refused(body), text);
  EXPECT_EQ(refused(with(R"("background":false,"conversation":null)")), "");
}

TEST(ResponseItems, BecomeMessages) {
  const ResponseRequest request = decoded(
      R"({"model":"m","instructions":"Be brief.","input":[{"role":"developer","content":"And kind."},)"
      R"({"role":"user","content":"a"},{"type":"message","role":"user","content":)"
      R"([{"type":"input_text","text":"b"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},)"
      R"({"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"},)"
      R"({"type":"refusal","refusal":"d"}]}]})");
  const std::vector<Message>& messages = request.generation.messages;
  EXPECT_EQ(script_of(messages),
            "system: Be brief.\n\nAnd kind.\nuser: a\n\nb\nassistant: c\n\nd\n");
  EXPECT_EQ(messages[1].n_images(), 1u);
}

TEST(ResponseItems, ReadCallsAndTheirResults) {
  const std::vector<Message> messages = messages_of(
      R"({"role":"user","content":"go"},)"
      R"({"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"x"},)"
      R"({"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},)"
      R"({"type":"function_call","call_id":"c2","name":"g","namespace":"n","arguments":""},)"
      R"({"type":"custom_tool_call","call_id":"c3","name":"patch","input":"+a"},)"
      R"({"type":"local_shell_call","call_id":"c4","action":{"type":"exec","command":["ls"]}},)"
      R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
      R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},)"
      R"({"type":"custom_tool_call_output","call_id":"c3","output":"three"},)"
      R"({"type":"local_shell_call_output","id":"c4","output":"four"},)"
      R"({"type":"web_search_call","id":"w","status":"completed"})");
  EXPECT_EQ(script_of(messages),
            "user: go\nassistant: \ntool: one\ntool: two\ntool: three\ntool: four\n");
  EXPECT_EQ(messages[1].thinking(), "hm");
  const auto calls = messages[1].tool_calls();
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0]->arguments, Json::parse(R"({"a":1})"));
  EXPECT_EQ(calls[1]->name, "n__g");
  EXPECT_EQ(calls[2]->arguments, Json::parse(R"({"input":"+a"})"));
  EXPECT_EQ(calls[3]->name, "local_shell");
  EXPECT_EQ(messages[2].tool_name, "f");
  EXPECT_EQ(messages[5].tool_name, "local_shell");
  EXPECT_EQ(messages[5].tool_call_id, "c4");
}

TEST(ResponseItems, AreRefusedWithTheirIndex) {
  EXPECT_EQ(refused_item(R"({"role":"user","content":"a"},{"type":"computer_call"})"),
            "input[1]: items of type \"computer_call\" are not supported");
  EXPECT_EQ(refused_item(R"({"content":"a"})"), "input[0]: item without a \"type\"");
  EXPECT_EQ(refused_item(R"({"role":"tool","content":"a"})"),
            "input[0]: a message has the role \"tool\"");
  EXPECT_EQ(refused_item(R"({"role":"user","content":[{"type":"input_file"}]})"),
            "input[0]: content of type \"input_file\" is not supported");
  EXPECT_EQ(refused_item(R"({"role":"user","content":[{"type":"input_image","file_id":"f"}]})"),
            "input[0]: an input_image must have an \"image_url\" with its data");
}

TEST(ResponseTools, SchemasCanBeBooleans) {
  const std::string schema =
      R"({"type":["object","null"],"properties":{"a":true,"b":{"anyOf":[true]}}})";
  const ResponseRequest request =
      decoded(with(R"("tools":[{"type":"function","name":"f","parameters":)" + schema + "}]"));
  EXPECT_EQ(request.generation.tools.at(0).parameters()->dump(), schema);
}

TEST(ResponseTools, BecomeFunctions) {
  const ResponseRequest request = decoded(with(
      R"("tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object"}},)"
      R"({"type":"custom","name":"patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: /a/"}},)"
      R"({"type":"local_shell"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]},)"
      R"({"type":"web_search"},{"type":"web_search_preview_2025_03_11"},{"type":"image_generation"}])"));
  const std::vector<Tool>& tools = request.generation.tools;
  ASSERT_EQ(tools.size(), 4u);
  EXPECT_EQ(
      tools[0].declaration,
      Json::parse(
          R"({"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}})"));
  EXPECT_TRUE(tools[0].strict);
  EXPECT_EQ(tools[1].declaration["function"]["description"],
            "Edits.\n\nThe input must match this grammar (lark):\nstart: /a/");
  EXPECT_EQ(tools[1].parameters()->at("required"), Json::parse(R"(["input"])"));
  EXPECT_EQ(tools[2].name, "local_shell");
  EXPECT_EQ(tools[3].name, "n__g");
  EXPECT_EQ(request.shapes.at("n__g").name, "g");
  EXPECT_EQ(request.shapes.at("n__g").name_space, "n");
  EXPECT_EQ(request.shapes.at("patch").form, CallForm::kCustom);
  EXPECT_EQ(request.left_out,
            (std::vector<std::string>{"web_search", "web_search_preview_2025_03_11",
                                      "image_generation"}));
}

TEST(ResponseTools, ReadChoices) {
  constexpr const char* kTools =
      R"("tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"},{"type":"local_shell"}],)";
  const auto choice = [&](const char* value) {
    return generation(std::string(kTools) + R"("tool_choice":)" + value);
  };
  EXPECT_EQ(choice("\"required\"").tool_choice.use, ToolUse::kRequired);
  EXPECT_EQ(choice("\"none\"").tool_choice.use, ToolUse::kNone);
  EXPECT_EQ(choice(R"({"type":"function","name":"f"})").tool_choice.name, "f");
  EXPECT_EQ(choice(R"({"type":"custom","name":"g"})").tool_choice.name, "g");
  EXPECT_EQ(choice(R"({"type":"local_shell"})").tool_choice.name, "local_shell");
  const GenerationRequest allowed = choice(
      R"({"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"g"},{"type":"local_shell"}]})");
  ASSERT_EQ(allowed.tools.size(), 2u);
  EXPECT_EQ(allowed.tools[0].name, "g");
  EXPECT_EQ(allowed.tool_choice.use, ToolUse::kRequired);
  EXPECT_FALSE(
      generation(std::string(kTools) + R"("parallel_tool_calls":false)").tool_choice.parallel);
}

TEST(ResponseStore, ContinuesAConversation) {
  ResponseStore store;
  const Json first = Json::parse(
      R"({"id":"msg_1","type":"message","role":"user","content":[{"type":"input_text","text":"a"}]})");
  const Json second = Json::parse(
      R"({"id":"msg_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]})");
  store.put("resp_1",
            {.json = "{}", .items = {store.item(first), store.item(second)}, .n_input = 1});
  const ResponseRequest request = decode_response(
      R"({"model":"m","previous_response_id":"resp_1","instructions":"i","input":"c"})", store);
  EXPECT_EQ(script_of(request.generation.messages), "system: i\nuser: a\nassistant: b\nuser: c\n");
  EXPECT_EQ(request.before.size(), 2u);
  const ResponseRequest referring = decode_response(
      R"({"model":"m","input":[{"type":"item_reference","id":"msg_1"},{"role":"user","content":"d"}]})",
      store);
  EXPECT_EQ(script_of(referring.generation.messages), "user: a\n\nd\n");
}

TEST(ResponseStore, LimitsBytesAndAge) {
  metrics::Clock::time_point now{};
  ResponseStore store({.max_bytes = 10'000, .max_age = std::chrono::seconds(60)},
                      [&] { return now; });
  const auto put = [&](int i) {
    const std::string number = std::to_string(i);
    const Json item = {{"id", "item_" + number}, {"text", std::string(1000, 'x')}};
    store.put("resp_" + number, {.json = "{}", .items = {store.item(item)}, .n_input = 1});
  };
  for (int i = 0; i < 20; ++i) put(i);
  EXPECT_LE(store.n_bytes(), 10'000u);
  EXPECT_FALSE(store.find("resp_0"));
  EXPECT_FALSE(store.find_item("item_0"));
  EXPECT_TRUE(store.find("resp_19"));
  EXPECT_TRUE(store.find_item("item_19"));
  EXPECT_TRUE(store.erase("resp_19"));
  EXPECT_FALSE(store.erase("resp_19"));
  EXPECT_FALSE(store.find("resp_19"));
  now += std::chrono::seconds(61);
  EXPECT_FALSE(store.find("resp_18"));
  EXPECT_EQ(store.n_bytes(), 0u);
}

TEST(ResponseStore, CountsASharedItemOnce) {
  ResponseStore store;
  const auto shared = store.item({{"id", "item"}, {"text", std::string(100'000, 'x')}});
  const size_t n_one = store.n_bytes();
  for (int i = 0; i < 10; ++i)
    store.put("resp_" + std::to_string(i), {.json = "{}", .items = {shared}, .n_input = 1});
  EXPECT_LT(store.n_bytes(), n_one + 5'000);
}

}  // namespace
}  // namespace billow::api::openai

// Tests the decoder of message requests.
#include <gtest/gtest.h>

#include "api/anthropic/field_tables.h"
#include "api/anthropic/messages_codec.h"
#include "api/openai/refusal.h"
#include "base/json.h"

namespace billow::api::anthropic {
namespace {

// Returns a request with a model, a message, a limit and these fields.
std::string with(const std::string& fields) {
  return R"({"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}])" +
         (fields.empty() ? "" : "," + fields) + "}";
}
std::string with_messages(const std::string& messages) {
  return R"({"model":"m","max_tokens":9,"messages":[)" + messages + "]}";
}
GenerationRequest decoded(const std::string& fields) {
  return decode_message(with(fields)).generation;
}
std::vector<Message> messages_of(const std::string& messages) {
  return decode_message(with_messages(messages)).generation.messages;
}
std::string refused(const std::string& body) { return openai::refusal(decode_message, body); }

// Returns a line like "user: Hi" for each message.
std::string script_of(const std::vector<Message>& messages) {
  std::string script;
  for (const Message& message : messages) script += message.role + ": " + message.text() + "\n";
  return script;
}

constexpr const char* kTool =
    R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}])";

TEST(MessagesRequest, MinimalRequestHasDefaults) {
  const MessagesRequest request = decode_message(with(""));
  EXPECT_FALSE(request.stream);
  EXPECT_TRUE(request.shows_thinking);
  EXPECT_TRUE(request.unknown_fields.empty());
  const GenerationRequest& generation = request.generation;
  EXPECT_EQ(generation.kind, GenerationKind::kChat);
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(script_of(generation.messages), "user: Hi\n");
  EXPECT_EQ(generation.options.num_predict, 9);
  EXPECT_EQ(generation.options.sampling, scheduler::Sampling());
  EXPECT_EQ(generation.options.stop, std::nullopt);
  EXPECT_EQ(generation.think.enabled, false);
  EXPECT_EQ(generation.grammar, std::nullopt);
  EXPECT_FALSE(generation.render_only);
}

TEST(MessagesRequest, FieldsBecomeOptions) {
  const GenerationRequest request = decoded(
      R"("temperature":0.5,"top_p":0.25,"top_k":5,"stop_sequences":["a","b"],"stream":true)");
  EXPECT_EQ(request.options.sampling,
            (scheduler::Sampling{.temperature = 0.5, .top_p = 0.25, .top_k = 5}));
  EXPECT_EQ(request.options.stop, (std::vector<std::string>{"a", "b"}));
  const MessagesRequest stream = decode_message(with(R"("stream":true,"frob":1,"user_id":2)"));
  EXPECT_TRUE(stream.stream);
  EXPECT_EQ(stream.unknown_fields, (std::vector<std::string>{"frob", "user_id"}));
}

TEST(MessagesRequest, NamesMissingFields) {
  const std::pair<std::string, const char*> kRefusals[] = {
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"Hi"}]})", "model is required"},
      {R"({"model":"m","max_tokens":1})", "messages is required"},
      {R"({"model":"m","max_tokens":1,"messages":[]})", "messages is required"},
      {R"({"model":"m","messages":[{"role":"user","content":"Hi"}]})",
       "max_tokens is required and must be positive"},
      {R"({"model":"m","max_tokens":0,"messages":[{"role":"user","content":"Hi"}]})",
       "max_tokens is required and must be positive"},
      {"", "missing request body"},
  };
  for (const auto& [body, text] : kRefusals) EXPECT_EQ(refused(body), text);
}

TEST(MessagesRequest, RefusesUnsupportedFieldsByName) {
  EXPECT_EQ(refused(with(R"("mcp_servers":[{"url":"u"}])")),
            "field \"mcp_servers\" is not supported: this server calls no tools; call them in "
            "the client");
  EXPECT_EQ(refused(with(R"("container":"c")")),
            "field \"container\" is not supported: this server has nothing similar");
  EXPECT_EQ(refused(with(R"("mcp_servers":[],"container":null)")), "");
  EXPECT_EQ(refused(with(R"("tools":[{"type":"web_search_20250305","name":"web_search"}])")),
            "field \"tools\" has a tool of type \"web_search_20250305\", which is not supported: "
            "declare it with \"input_schema\"");
}

TEST(MessagesRequest, TheSystemTextComesFirst) {
  EXPECT_EQ(script_of(decoded(R"("system":"Be brief.")").messages),
            "system: Be brief.\nuser: Hi\n");
  EXPECT_EQ(script_of(decoded(R"("system":[{"type":"text","text":"a","cache_control":)"
                              R"({"type":"ephemeral"}},{"type":"text","text":"b"}])")
                          .messages),
            "system: a\n\nb\nuser: Hi\n");
  EXPECT_EQ(script_of(decoded(R"("system":[{"type":"text","text":"x-anthropic-billing-header: )"
                              R"(cch=1;"},{"type":"text","text":"b"}])")
                          .messages),
            "system: b\nuser: Hi\n");
  EXPECT_EQ(script_of(decoded(R"("system":[])").messages), "user: Hi\n");
  EXPECT_EQ(refused(with(R"("system":[{"type":"image"}])")),
            "field \"system\" has a block of type \"image\", not text");
}

TEST(MessagesRequest, MergesTurnsOfOneRole) {
  EXPECT_EQ(
      script_of(messages_of(
          R"({"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},)"
          R"({"type":"text","text":"c"}]},{"role":"assistant","content":"d"})")),
      "user: a\n\nb\n\nc\nassistant: d\n");
  EXPECT_EQ(refused(with_messages(R"({"role":"tool","content":"a"})")),
            "field \"messages\" has the role \"tool\"; it must be \"user\", \"assistant\" "
            "or \"system\"");
}

TEST(MessagesRequest, ReadsCallsAndTheirResults) {
  const std::vector<Message> messages = messages_of(
      R"({"role":"user","content":"weather?"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},)"
      R"({"type":"redacted_thinking","data":"x"},{"type":"text","text":"I look."},)"
      R"({"type":"tool_use","id":"t1","name":"f","input":{"a":1}},)"
      R"({"type":"tool_use","id":"t2","name":"g"}]},)"
      R"({"role":"user","content":[{"type":"text","text":"and?"},)"
      R"({"type":"tool_result","tool_use_id":"t1","content":"sun"},)"
      R"({"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"no"}]}]})");
  EXPECT_EQ(script_of(messages),
            "user: weather?\nassistant: I look.\ntool: sun\ntool: no\nuser: and?\n");
  EXPECT_EQ(messages[1].thinking(), "hm");
  ASSERT_EQ(messages[1].tool_calls().size(), 2u);
  EXPECT_EQ(messages[1].tool_calls()[0]->id, "t1");
  EXPECT_EQ(messages[1].tool_calls()[0]->arguments, Json::parse(R"({"a":1})"));
  EXPECT_EQ(messages[1].tool_calls()[1]->arguments, Json::object());
  EXPECT_EQ(messages[2].tool_call_id, "t1");
  EXPECT_EQ(messages[2].tool_name, "f");
  EXPECT_EQ(messages[3].tool_name, "g");
}

TEST(MessagesRequest, TurnWithOnlyResultsIsNoUserMessage) {
  EXPECT_EQ(script_of(messages_of(
                R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f"}]},)"
                R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]})")),
            "assistant: \ntool: \n");
}

TEST(MessagesRequest, ReadsImagesAndDocuments) {
  const std::vector<Message> messages = messages_of(
      R"({"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}},)"
      R"({"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}},{"type":"search_result","source":"S","title":"R","content":[{"type":"text","text":"F"}]}]})");
  ASSERT_EQ(messages.size(), 1u);
  ASSERT_EQ(messages[0].n_images(), 1u);
  EXPECT_EQ(std::get<ImagePart>(messages[0].parts[0]).bytes, "hi");
  EXPECT_EQ(messages[0].text(), "T\n\nD\n\nR\nS\n\nF");
  const std::pair<const char*, const char*> kRefusals[] = {
      {R"({"type":"image","source":{"type":"url","url":"u"}})",
       "image block: field \"source.url\" is not an http or https URL"},
      {R"({"type":"image","source":{"type":"file","file_id":"f"}})",
       "image block: a source of type \"file\" is not supported: send it as base64"},
      {R"({"type":"image","source":{"type":"base64","data":"?"}})",
       "image block: field \"source.data\" is not base64"},
      {R"({"type":"document","source":{"type":"base64","data":"aGk="}})",
       "document block: a source of type \"base64\" is not supported: send its text"},
      {R"({"type":"document","source":{"type":"text","data":"D"},"citations":{"enabled":true}})",
       "field \"citations.enabled\" of a block is not supported: answers have no citations"},
      {R"({"type":"server_tool_use","id":"i","name":"n"})",
       "content of type \"server_tool_use\" is not supported"},
      {R"({"type":"tool_use","name":"n"})", "tool_use block: field \"id\" is missing"},
      {R"({"type":"tool_use","id":"n"})", "tool_use block: field \"name\" is missing"},
      {R"({"type":"tool_result"})", "tool_result block: field \"tool_use_id\" is missing"},
  };
  for (const auto& [block, text] : kRefusals)
    EXPECT_EQ(refused(with_messages(R"({"role":"user","content":[)" + std::string(block) + "]}")),
              text);
}

TEST(MessagesRequest, ConvertsToolsForTemplates) {
  const GenerationRequest request = decoded(kTool);
  ASSERT_EQ(request.tools.size(), 1u);
  EXPECT_EQ(request.tools[0].name, "f");
  EXPECT_FALSE(request.tools[0].strict);
  EXPECT_EQ(
      request.tools[0].declaration,
      Json::parse(R"({"type":"function","function":{"name":"f","description":"d","parameters":)"
                  R"({"type":"object","properties":{"a":{"type":"integer"}}}}})"));
  EXPECT_TRUE(decoded(R"("tools":[{"type":"custom","name":"f","strict":true,"input_schema":{}}])")
                  .tools[0]
                  .strict);
  EXPECT_EQ(refused(with(R"("tools":[{"description":"d"}])")),
            "field \"tools\" has a tool without a name");
}

TEST(MessagesRequest, SchemasOfToolsCanBeBooleans) {
  const std::string schema =
      R"({"type":["object","null"],"properties":{"a":true,"b":{"anyOf":[true]}}})";
  EXPECT_EQ(decoded(R"("tools":[{"name":"f","input_schema":)" + schema + "}]")
                .tools.at(0)
                .parameters()
                ->dump(),
            schema);
}

TEST(MessagesRequest, ReadsToolChoices) {
  struct Case {
    const char* choice;
    ToolUse use;
    const char* name;
    bool parallel;
  };
  constexpr Case kCases[] = {
      {R"({"type":"auto"})", ToolUse::kAuto, "", true},
      {R"({"type":"auto","disable_parallel_tool_use":true})", ToolUse::kAuto, "", false},
      {R"({"type":"any"})", ToolUse::kRequired, "", true},
      {R"({"type":"none"})", ToolUse::kNone, "", true},
      {R"({"type":"tool","name":"f"})", ToolUse::kRequired, "f", true},
  };
  for (const Case& one : kCases) {
    const ToolChoice choice =
        decoded(std::string(kTool) + R"(,"tool_choice":)" + one.choice).tool_choice;
    EXPECT_EQ(choice.use, one.use) << one.choice;
    EXPECT_EQ(choice.name, one.name);
    EXPECT_EQ(choice.parallel, one.parallel);
  }
  EXPECT_EQ(refused(with(R"("tool_choice":{"type":"some"})")),
            "field \"tool_choice.type\" must be \"auto\", \"any\", \"tool\" or \"none\", not "
            "\"some\"");
  EXPECT_EQ(refused(with(std::string(kTool) + R"(,"tool_choice":{"type":"tool","name":"g"})")),
            "field \"tool_choice\" names the function \"g\", which is not in \"tools\"");
}

TEST(MessagesRequest, ReadsThinking) {
  struct Case {
    const char* fields;
    std::optional<bool> enabled;
    const char* level;
  };
  const Case kCases[] = {
      {R"("thinking":{"type":"enabled","budget_tokens":1024})", std::nullopt, ""},
      {R"("thinking":{"type":"adaptive"})", std::nullopt, ""},
      {R"("thinking":{"type":"between_tools"})", std::nullopt, ""},
      {R"("thinking":{"type":"disabled"})", false, ""},
      {R"("output_config":{"effort":"low"})", std::nullopt, "low"},
      {R"("output_config":{"effort":"xhigh"},"thinking":{"type":"adaptive"})", std::nullopt, "max"},
      {R"("output_config":{"effort":"high"},"thinking":{"type":"disabled"})", false, ""},
  };
  for (const Case& one : kCases) {
    const Think think = decoded(one.fields).think;
    EXPECT_EQ(think.enabled, one.enabled) << one.fields;
    EXPECT_EQ(think.level, one.level) << one.fields;
  }
  EXPECT_FALSE(
      decode_message(with(R"("thinking":{"type":"adaptive","display":"omitted"})")).shows_thinking);
  EXPECT_EQ(refused(with(R"("thinking":{"type":"on"})")),
            "field \"thinking.type\" must be \"enabled\", \"adaptive\", \"between_tools\" or "
            "\"disabled\", not \"on\"");
  EXPECT_EQ(refused(with(R"("output_config":{"effort":"some"})")),
            "field \"output_config.effort\" must be \"low\", \"medium\", \"high\", \"xhigh\" or "
            "\"max\", not \"some\"");
}

TEST(MessagesRequest, ReadsFormatAsASchema) {
  const constraint::Grammar expected{.kind = constraint::GrammarKind::kJsonSchema,
                                     .text = R"({"type":"object"})"};
  constexpr const char* kFormat = R"({"type":"json_schema","schema":{"type":"object"}})";
  EXPECT_EQ(decoded(R"("output_config":{"format":)" + std::string(kFormat) + "}").grammar,
            expected);
  EXPECT_EQ(decoded(R"("output_format":)" + std::string(kFormat)).grammar, expected);
  EXPECT_EQ(refused(with(R"("output_format":{"type":"json_schema","schema":{}},)"
                         R"("output_config":{"format":)" +
                         std::string(kFormat) + "}")),
            "fields \"output_config.format\" and \"output_format\" ask for different answers; "
            "remove one of them");
  EXPECT_EQ(refused(with(R"("output_format":{"type":"xml"})")),
            "field \"output_format.type\" must be \"json_schema\", not \"xml\"");
  EXPECT_EQ(refused(with(R"("output_format":{"type":"json_schema"})")),
            "field \"output_format.schema\" is missing");
}

TEST(CountRequest, NeedsNoLimitAndIsOnlyRendered) {
  const MessagesRequest request =
      decode_count(R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5})");
  EXPECT_TRUE(request.generation.render_only);
  EXPECT_EQ(request.unknown_fields, (std::vector<std::string>{"max_tokens"}));
}

}  // namespace
}  // namespace billow::api::anthropic
